// Telegram delivers by webhook instead of polling: through the listener, with the secret, repeatedly until it
// is accepted.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { freePort, Gateway } from "./support/chats.mjs"
import { Platform } from "./support/platform.mjs"
import { Baton, listing } from "./support/server.mjs"

const TOKEN = "4200:not-a-token"
const SECRET = "not-a-secret"
const ADA = { chat: "7", from: "1001", name: "Ada" }

describe("Telegram by webhook", () => {
  let fake, baton, gateway, url

  before(async () => {
    fake = await Platform.start("telegram", { token: TOKEN })
    baton = await Baton.start({ env: listing("simple") })
    const listen = `127.0.0.1:${await freePort()}`
    url = `http://${listen}/telegram`
    const telegram = { token: TOKEN, api: fake.url, allow: [ADA.from], webhook: { url, secret: SECRET } }
    gateway = new Gateway({ world: baton.world, address: baton.url, channels: { listen, telegram } })
    await gateway.begin()
  })
  after(async () => {
    await gateway?.shutdown()
    await baton?.stop()
    await fake?.stop()
  })

  const says = (words) => (state) => state.messages.find(({ text }) => text.includes(words))
  const until = (words) => fake.until(`${words}\n${gateway.log.slice(-4_000)}`, says(words))
  const answers = async (words) => (await fake.state()).messages.filter(({ text }) => text.includes(words)).length

  test("a message is answered without polling", async () => {
    await fake.say({ ...ADA, text: "/model demo/simple" })
    await until("demo/simple")
    await fake.say({ ...ADA, text: "hello" })
    await until("All is well.")
    const { calls, problems } = await fake.state()
    assert.equal(calls.getUpdates, undefined)
    assert.deepEqual(problems, [])
  })

  test("a message sent while the gateway is down is answered once after its start", async () => {
    await gateway.kill()
    await fake.say({ ...ADA, text: "/status" })
    await fake.say({ ...ADA, text: "hello again" })
    const { calls } = await fake.state()
    await fake.until("pushes in vain", (state) => state.calls.push > calls.push + 1)
    await gateway.begin()
    await fake.until("the second answer", (state) => state.messages.filter(({ text }) => text.includes("All is well.")).length === 2)
    await fake.repeat()
    await fake.say({ ...ADA, text: "/help" })
    await until("/sessions")
    assert.equal(await answers("All is well."), 2, "a repeated delivery is not a second prompt")
  })

  test("calls without the secret are refused", async () => {
    const from = { id: Number(ADA.from), is_bot: false, first_name: "Ada" }
    const message = { message_id: 900, date: 1, chat: { id: 7, type: "private" }, from, text: "forged" }
    const call = async (secret, body) => {
      const headers = { "content-type": "application/json", "x-telegram-bot-api-secret-token": secret }
      const { status } = await fetch(url, { method: "POST", headers, body })
      return status
    }
    const body = JSON.stringify({ update_id: 900, message })
    assert.equal(await call("guessed", body), 401)
    assert.equal(await call("", body), 401)
    assert.equal(await call(SECRET, "nonsense"), 400)
    assert.equal(await call(SECRET, JSON.stringify({ update_id: 901, message: { ...message, text: "x".repeat(1 << 20) } })), 413)
    await fake.say({ ...ADA, text: "/status" })
    await fake.until("the genuine update", (state) => state.acknowledged >= 7)
    assert.equal(await answers("All is well."), 2)
    assert.ok(!gateway.log.includes(SECRET) && !gateway.log.includes("not-a-token") && !gateway.log.includes("forged"))
  })
})
