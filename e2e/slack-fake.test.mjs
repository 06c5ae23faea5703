// Verifies the fake of Slack with Slack's own clients: they connect to it, receive from it, acknowledge and
// post, and notice no difference.

import assert from "node:assert/strict"
import { once } from "node:events"
import { after, before, describe, test } from "node:test"
import { LogLevel, SocketModeClient } from "@slack/socket-mode"
import { WebClient } from "@slack/web-api"
import { Platform } from "./support/platform.mjs"
import { within } from "./support/wait.mjs"

const BOT_TOKEN = "xoxb-fake"
const APP_TOKEN = "xapp-fake"

describe("Slack's own clients and the fake", () => {
  let fake, socket, web
  before(async () => {
    fake = await Platform.start("slack")
    const slackApiUrl = `${fake.url}/`
    web = new WebClient(BOT_TOKEN, { slackApiUrl, retryConfig: { retries: 0 }, logLevel: LogLevel.ERROR })
    socket = new SocketModeClient({ appToken: APP_TOKEN, logLevel: LogLevel.ERROR, clientOptions: { slackApiUrl } })
    await within(10_000, socket.start(), "the official client to connect")
  })
  after(async () => {
    await socket?.disconnect()
    await fake?.stop()
  })

  const say = (said) => fake.control("say", { chat: "C1", from: "U1", name: "ada", isGroup: true, ...said })
  const heard = async (name) => (await within(10_000, once(socket, name), `${name} to arrive`))[0]
  const shown = (id) => fake.until("the message", (state) => state.messages.find((message) => message.id === id))

  test("know who the bot is", async () => {
    const me = await web.auth.test()
    assert.deepEqual({ user: me.user_id, bot: me.bot_id }, { user: "UBOT", bot: "BBOT" })
    await assert.rejects(
      new WebClient("xoxb-wrong", { slackApiUrl: `${fake.url}/`, logLevel: LogLevel.ERROR }).auth.test(),
      /invalid_auth/,
    )
  })

  test("receive a mention as two events, acknowledge both, and answer in its thread", async () => {
    const [message, mention] = [heard("message"), heard("app_mention")]
    const { id } = await say({ text: "@baton what is 1 < 2?" })
    for (const { ack, event, body } of [await message, await mention]) {
      assert.equal(event.text, "<@UBOT> what is 1 &lt; 2?")
      assert.equal(event.ts, id)
      assert.match(body.event_id, /^Ev/)
      await ack()
    }
    await fake.until("both acknowledgements", (state) => state.acknowledged === 2)
    const posted = await web.chat.postMessage({ channel: "C1", thread_ts: id, text: "*True.*" })
    await web.chat.update({ channel: "C1", ts: posted.ts, text: "*True*, and known." })
    const answer = await shown(posted.ts)
    assert.deepEqual([answer.thread, answer.text, answer.before], [id, "*True*, and known.", ["*True.*"]])
    await web.chat.delete({ channel: "C1", ts: posted.ts })
    await assert.rejects(web.chat.update({ channel: "C1", ts: posted.ts, text: "gone" }), /cant_update_message/)
  })

  test("show buttons and receive the chosen one", async () => {
    const button = { type: "button", action_id: "a", value: "yes", text: { type: "plain_text", text: "Yes" } }
    const blocks = [
      { type: "section", text: { type: "mrkdwn", text: "Really?" } },
      { type: "actions", elements: [button] },
    ]
    const { ts } = await web.chat.postMessage({ channel: "C1", text: "Really?", blocks })
    const interactive = heard("interactive")
    await fake.control("tap", { message: ts, label: "Yes", from: "U1", name: "ada" })
    const { ack, body } = await interactive
    await ack()
    assert.deepEqual([body.type, body.actions[0].value, body.container.message_ts], ["block_actions", "yes", ts])
    await assert.rejects(
      web.chat.postMessage({ channel: "C1", text: "x", blocks: [{ type: "actions", elements: Array(26).fill(button) }] }),
      /invalid_blocks/,
    )
  })

  test("receive a slash command", async () => {
    const command = heard("slash_commands")
    await say({ text: "/baton look around" })
    const { ack, body } = await command
    await ack()
    assert.deepEqual([body.command, body.text, body.channel_id], ["/baton", "look around", "C1"])
  })

  test("set a status, and upload a file", async () => {
    const message = heard("message")
    const { id } = await say({ text: "wait" })
    await (await message).ack()
    await web.assistant.threads.setStatus({ channel_id: "C1", thread_ts: id, status: "is thinking…" })
    await fake.until("the status", (state) => state.typing.C1 === 1)
    await web.files.uploadV2({ channel_id: "C1", thread_ts: id, filename: "a.txt", content: "hello" })
    const { thread, file } = await fake.until("the file", (state) => state.messages.find((it) => it.file))
    assert.deepEqual([thread, file.name, file.text], [id, "a.txt", "hello"])
  })

  test("receive unacknowledged events again, and notice when Slack closes a connection", async () => {
    const connected = once(socket, "connected")
    await fake.control("slack/disconnect")
    await within(20_000, connected, "the official client to connect again")
    const message = heard("message")
    await fake.control("say", { chat: "D1", from: "U1", text: "late" })
    const first = await message
    assert.equal(first.retry_num ?? 0, 0)
    const again = await heard("message")
    assert.deepEqual([again.body.event_id, again.retry_num], [first.body.event_id, 1])
    await again.ack()
    const state = await fake.until("a problem", (it) => it.problems.length > 0 && it)
    assert.match(state.problems.join(), /not acknowledged/)
  })
})
