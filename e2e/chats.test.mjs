// Telegram, Slack and WhatsApp, with Baton behind the gateway.

import { suite } from "./support/chat-suite.mjs"
import * as services from "./support/services.mjs"
import { Baton, World } from "./support/server.mjs"
import { furnish } from "./peers/support/peers.mjs"

const startServer = async (model) => Baton.start({ world: await furnish(await World.create(), model) })

for (const service of Object.values(services)) suite(`${service.name} and Baton`, { service, startServer })
