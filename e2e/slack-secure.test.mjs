// Socket Mode over TLS, as Slack offers it: with a trusted and with an untrusted certificate.

import assert from "node:assert/strict"
import { writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { Gateway } from "./support/chats.mjs"
import { Platform } from "./support/platform.mjs"
import { Baton, listing } from "./support/server.mjs"

const TOKENS = { botToken: "xoxb-not-a-token", appToken: "xapp-not-a-token" }
const ADA = { chat: "D7", from: "1001", name: "Ada" }

describe("Slack by Socket Mode over TLS", () => {
  let fake, baton, channels, certificate

  before(async () => {
    fake = await Platform.start("slack", { ...TOKENS, isSecure: true })
    baton = await Baton.start({ env: listing("simple") })
    certificate = path.join(baton.world.root, "slack.pem")
    await writeFile(certificate, await fake.control("slack/certificate"))
    channels = { slack: { ...TOKENS, api: fake.url, allow: [ADA.from] } }
  })
  after(async () => {
    await baton?.stop()
    await fake?.stop()
  })

  async function connected(env, during) {
    const gateway = new Gateway({ world: baton.world, address: baton.url, channels, env })
    await gateway.begin()
    try {
      await during(gateway)
    } finally {
      await gateway.shutdown()
    }
    for (const token of Object.values(TOKENS)) assert.ok(!gateway.log.includes(token), "a token was logged")
    assert.ok(!gateway.log.includes("ticket-"), "the address contains a secret")
  }

  const until = (gateway, words) =>
    fake.until(`${words}\n${gateway.log.slice(-4_000)}`, ({ messages }) => messages.find(({ text }) => text.includes(words)))

  test("a server with an untrusted certificate is refused", async () => {
    await connected({}, async (gateway) => {
      await gateway.logged("invalid peer certificate")
      const { calls } = await fake.state()
      await fake.until("another attempt", (state) => state.calls["apps.connections.open"] > calls["apps.connections.open"])
    })
  })

  test("a message is answered over a trusted connection", async () => {
    await connected({ SSL_CERT_FILE: certificate }, async (gateway) => {
      await fake.say({ ...ADA, text: "/model demo/simple" })
      await until(gateway, "demo/simple")
      await fake.say({ ...ADA, text: "hello" })
      await until(gateway, "All is well.")
    })
    assert.deepEqual((await fake.state()).problems, [])
  })
})
