// A Telegram group is upgraded and gets another id: the session and unsent messages move along.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { Gateway } from "./support/chats.mjs"
import { Platform } from "./support/platform.mjs"
import { Baton } from "./support/server.mjs"

const TOKEN = "4200:not-a-token"
const ADA = { from: "1001", name: "Ada", isGroup: true }
const [OLD, NEW] = ["-70", "-10070"]

describe("A group that is upgraded", () => {
  let fake, baton, gateway

  before(async () => {
    fake = await Platform.start("telegram", { token: TOKEN })
    baton = await Baton.start()
    const telegram = { token: TOKEN, api: fake.url, allow: [ADA.from] }
    gateway = new Gateway({ world: baton.world, address: baton.url, channels: { telegram } })
    await gateway.begin()
  })
  after(async () => {
    await gateway?.shutdown()
    await baton?.stop()
    await fake?.stop()
  })

  const says = (chat, words) => ({ messages }) => messages.find((it) => it.chat === chat && it.text.includes(words))
  const until = (chat, words) => fake.until(`${words}\n${gateway.log.slice(-4_000)}`, says(chat, words))

  test("loses no message", async () => {
    await fake.say({ ...ADA, chat: OLD, text: "/agent plan" })
    await until(OLD, "The agent is now plan.")
    await fake.plan({ method: "sendMessage", kind: "busy", after: 1 })
    await fake.say({ ...ADA, chat: OLD, text: "/help" })
    await gateway.logged("the service did not accept a post")
    await fake.control("telegram/migrate", { chat: OLD, to: Number(NEW) })
    await until(NEW, "/sessions")
    await fake.say({ ...ADA, chat: NEW, text: "/status" })
    await until(NEW, "plan")
    const { messages, problems } = await fake.state()
    assert.equal(messages.filter(({ text }) => text.includes("/sessions")).length, 1)
    assert.deepEqual(problems, [])
  })
})
