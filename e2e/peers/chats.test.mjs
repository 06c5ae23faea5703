// The same chats, with OpenCode's own server behind the gateway.

import { suite } from "../support/chat-suite.mjs"
import * as services from "../support/services.mjs"
import { OpenCode } from "./support/peers.mjs"

const startServer = (model) => OpenCode.start(model)

for (const service of Object.values(services)) suite(`${service.name} and OpenCode`, { service, startServer })
