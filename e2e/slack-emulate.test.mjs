// The gateway against an independent Slack server: the package `emulate`. It has users, channels and messages,
// but neither Socket Mode nor buttons nor statuses. This version cannot send its events to an address either,
// so the test passes each message to the gateway, signed as Slack signs.

import assert from "node:assert/strict"
import { createHmac } from "node:crypto"
import { once } from "node:events"
import http from "node:http"
import { after, before, describe, test } from "node:test"
import { createEmulator } from "emulate"
import { Gateway, freePort } from "./support/chats.mjs"
import { Baton } from "./support/server.mjs"
import { within } from "./support/wait.mjs"

const SECRET = "not-a-signing-secret"
const BOT = { token: "xoxb-not-a-token", user: "UBATON" }
const ADA = "xoxp-ada"
const CHANNEL = "C000000001"
// Answer of the demo model's scenario `simple`.
const ANSWER = "Hello from the demo model. All is well."

const seed = {
  slack: {
    users: [{ name: "ada" }],
    oauth_apps: [
      {
        client_id: "1.2",
        client_secret: "not-a-secret",
        name: "Baton",
        redirect_uris: [],
        bot_id: "BBATON",
        bot_user_id: BOT.user,
        bot_name: "baton",
      },
    ],
    tokens: [
      { token: BOT.token, user_id: BOT.user, bot_id: "BBATON", type: "bot" },
      { token: ADA, user: "ada", type: "user" },
    ],
  },
}

// Passes calls on to the emulator, so that a test can wait for one instead of polling.
class Tap {
  static async open(target) {
    const tap = new Tap()
    tap.calls = []
    tap.waiting = new Set()
    tap.server = http.createServer(async (request, response) => {
      const body = Buffer.concat(await request.toArray())
      const { authorization = "", "content-type": mime = "" } = request.headers
      const headers = { authorization, "content-type": mime }
      const answer = await fetch(new URL(request.url, target), { method: request.method, headers, body })
      const text = await answer.text()
      response.writeHead(answer.status, { "content-type": "application/json" }).end(text)
      const method = request.url.split("/").at(-1)
      tap.calls.push({ method, status: answer.status, fields: Object.fromEntries(new URLSearchParams(String(body))) })
      tap.waiting.forEach((look) => look())
    })
    tap.server.listen(0, "127.0.0.1")
    await once(tap.server, "listening")
    tap.url = `http://127.0.0.1:${tap.server.address().port}`
    return tap
  }

  // Resolves as soon as there are this many matching calls.
  until(count, fits, what) {
    const found = new Promise((resolve) => {
      const look = () => {
        const fitting = this.calls.filter(fits)
        if (fitting.length < count) return
        this.waiting.delete(look)
        resolve(fitting)
      }
      this.waiting.add(look)
      look()
    })
    return within(60_000, found, what, () => JSON.stringify(this.calls, null, 1))
  }

  async close() {
    this.server.closeAllConnections()
    this.server.close()
    await once(this.server, "close")
  }
}

describe("the gateway and an independent Slack server", () => {
  let baton, emulator, tap, gateway, hook
  before(async () => {
    baton = await Baton.start({ env: { OPENCODE_CONFIG_CONTENT: JSON.stringify({ model: "demo/simple" }) } })
    emulator = await createEmulator({ service: "slack", port: await freePort(), seed })
    tap = await Tap.open(emulator.url)
    const port = await freePort()
    hook = `http://127.0.0.1:${port}/slack`
    const { user_id: ada } = await call(ADA, "auth.test")
    const slack = { botToken: BOT.token, signingSecret: SECRET, api: `${tap.url}/api`, allow: [ada] }
    const channels = { listen: `127.0.0.1:${port}`, slack }
    gateway = new Gateway({ world: baton.world, address: baton.url, channels })
    await gateway.begin()
  })
  after(async () => {
    await gateway?.shutdown()
    await tap?.close()
    await emulator?.close()
    await baton?.stop()
  })

  const call = async (token, method, fields = {}) => {
    const headers = { authorization: `Bearer ${token}` }
    const body = new URLSearchParams(fields)
    const answer = await (await fetch(`${emulator.url}/api/${method}`, { method: "POST", headers, body })).json()
    assert.equal(answer.ok, true, `${method}: ${JSON.stringify(answer)}`)
    return answer
  }

  // Delivers a new message as Slack does.
  const deliver = async ({ channel, message }, secret = SECRET) => {
    const body = JSON.stringify({ type: "event_callback", event: { ...message, channel } })
    const moment = Math.floor(Date.now() / 1_000)
    const tag = createHmac("sha256", secret).update(`v0:${moment}:${body}`).digest("hex")
    const headers = {
      "content-type": "application/json",
      "x-slack-request-timestamp": String(moment),
      "x-slack-signature": `v0=${tag}`,
    }
    return (await fetch(hook, { method: "POST", headers, body })).status
  }

  const write = async (fields) => {
    const written = await call(ADA, "chat.postMessage", fields)
    assert.equal(await deliver(written), 200)
    return written
  }

  const saidIn = (thread) => (call) => call.method === "chat.postMessage" && call.fields.thread_ts === thread
  const ofBot = (messages) => messages.filter((message) => message.user === BOT.user)

  test("a mention and the messages that follow are answered in its thread", async () => {
    const written = await write({ channel: CHANNEL, text: `<@${BOT.user}> hello` })
    await tap.until(1, saidIn(written.ts), "the answer")
    await write({ channel: CHANNEL, thread_ts: written.ts, text: "and again" })
    await tap.until(2, saidIn(written.ts), "the second answer")
    const { messages } = await call(ADA, "conversations.replies", { channel: CHANNEL, ts: written.ts })
    const answers = ofBot(messages)
    assert.equal(answers.length, 2, JSON.stringify(messages))
    answers.forEach((answer) => assert.equal(answer.text, ANSWER))
    const { messages: others } = await call(ADA, "conversations.history", { channel: CHANNEL })
    assert.deepEqual(ofBot(others.filter((message) => !message.thread_ts)), [])
  })

  test("a message delivered twice is answered once", async () => {
    const written = await write({ channel: CHANNEL, text: `<@${BOT.user}> once` })
    assert.equal(await deliver(written), 200)
    await tap.until(1, saidIn(written.ts), "the answer")
    // Answers come in order: a second answer to the first message would have come before this one.
    await write({ channel: CHANNEL, thread_ts: written.ts, text: "and then" })
    await tap.until(2, saidIn(written.ts), "the answer to what followed")
    const { messages } = await call(ADA, "conversations.replies", { channel: CHANNEL, ts: written.ts })
    assert.equal(ofBot(messages).length, 2, JSON.stringify(messages))
  })

  test("a direct message is answered in place", async () => {
    const { channel } = await call(ADA, "conversations.open", { users: BOT.user })
    await write({ channel: channel.id, text: "hello" })
    const inChat = (call) => call.method === "chat.postMessage" && call.fields.channel === channel.id
    const [answer] = await tap.until(1, inChat, "the answer")
    assert.equal(answer.fields.thread_ts, undefined)
    const { messages } = await call(ADA, "conversations.history", { channel: channel.id })
    assert.equal(ofBot(messages).length, 1)
  })

  test("an unsigned call runs nothing", async () => {
    const forged = await call(ADA, "chat.postMessage", { channel: CHANNEL, text: `<@${BOT.user}> forged` })
    assert.equal(await deliver(forged, "another secret"), 401)
    const written = await write({ channel: CHANNEL, text: `<@${BOT.user}> genuine` })
    await tap.until(1, saidIn(written.ts), "the answer to what is genuine")
    const { messages } = await call(ADA, "conversations.replies", { channel: CHANNEL, ts: forged.ts })
    assert.deepEqual(ofBot(messages), [])
  })

  test("a server without statuses is called once, and the log has no secrets", () => {
    const asked = tap.calls.filter((call) => call.method === "assistant.threads.setStatus")
    assert.deepEqual(asked.map((call) => call.status), [404])
    for (const secret of [BOT.token, SECRET]) assert.ok(!gateway.log.includes(secret))
  })
})
