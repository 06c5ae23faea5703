// Verifies the fake of WhatsApp's Cloud API with an independent client. The fake must accept what that client
// sends, and the client's own check and parser must accept the fake's webhook calls. So the fake is neither
// stricter than other clients expect nor has its own format.

import assert from "node:assert/strict"
import { createServer } from "node:http"
import { after, before, test } from "node:test"
import { GraphApiError, WhatsAppClient } from "@kapso/whatsapp-cloud-api"
import { normalizeWebhook, verifySignature } from "@kapso/whatsapp-cloud-api/server"
import { Platform } from "./support/platform.mjs"
import { within } from "./support/wait.mjs"

const phoneNumberId = "106540352242922"
const ada = "491700000001"
const appSecret = "app-secret"

let platform, client, webhook

before(async () => {
  platform = await Platform.start("whatsapp")
  client = new WhatsAppClient({ baseUrl: platform.url, graphVersion: "v26.0", accessToken: "EAAfake" })
  webhook = await Webhook.start("verify-token")
  await platform.control("webhook", { url: webhook.url })
})

after(async () => {
  await webhook?.stop()
  await platform?.stop()
})

// Ada sends a message, and the webhook is called.
async function hear(said) {
  const { id } = await platform.control("say", { chat: ada, from: ada, name: "Ada", ...said })
  const message = await webhook.until((seen) => seen.messages.find((message) => message.id === id))
  return { id, message }
}

test("a message of a user is signed and can be parsed", async () => {
  const { message } = await hear({ text: "Hello." })
  assert.equal(message.type, "text")
  assert.equal(message.from, ada)
  assert.equal(message.text.body, "Hello.")
  assert.ok(Math.abs(Number(message.timestamp) * 1000 - Date.now()) < 60_000)
  assert.ok(webhook.calls.every((call) => call.isGenuine), "every call is signed with the app's secret")
})

test("text, buttons, a list and a file are accepted as this client sends them", async () => {
  const { id } = await hear({ text: "Do something." })
  await client.messages.markRead({ phoneNumberId, messageId: id, typingIndicator: { type: "text" } })
  const text = await client.messages.sendText({
    phoneNumberId,
    to: ada,
    body: "x".repeat(4096),
    contextMessageId: id,
  })
  assert.match(text.messages[0].id, /^wamid\./)
  const buttons = await client.messages.sendInteractiveButtons({
    phoneNumberId,
    to: ada,
    bodyText: "May it?",
    buttons: ["Once", "Always", "No"].map((title) => ({ id: `token ${title}`, title })),
  })
  const rows = Array.from({ length: 10 }, (_, at) => ({ id: `row ${at}`, title: `Row ${at}`, description: "More" }))
  const list = await client.messages.sendInteractiveList({
    phoneNumberId,
    to: ada,
    bodyText: "Which?",
    buttonText: "Choose",
    sections: [{ title: "All", rows }],
  })
  const file = new Blob(["-1\n+2\n"], { type: "text/plain" })
  const upload = { phoneNumberId, type: "text/plain", file, fileName: "a.diff" }
  const media = await client.media.upload(upload)
  await client.messages.sendDocument({
    phoneNumberId,
    to: ada,
    document: { id: media.id, filename: "a.diff", caption: "What changed" },
  })
  const state = await platform.until("the file to be shown", (state) => state.messages.at(-1)?.file && state)
  assert.deepEqual(state.problems, [])
  assert.equal(state.typing[ada], 1)
  assert.equal(state.messages[0].replyTo, id)
  assert.deepEqual(state.messages.at(-1).file, { name: "a.diff", mime: "text/plain", text: "-1\n+2\n" })

  for (const [message, label, kind, token] of [
    [buttons.messages[0].id, "Always", "buttonReply", "token Always"],
    [list.messages[0].id, "Row 9", "listReply", "row 9"],
  ]) {
    await platform.control("tap", { message, label, from: ada, name: "Ada" })
    const chosen = await webhook.until((seen) => seen.messages.find((it) => it.context?.id === message))
    assert.equal(chosen.type, "interactive")
    assert.equal(chosen.interactive[kind].id, token)
  }
})

test("a file that a user sends can be fetched only with the token", async () => {
  const bytes = Buffer.from("a picture")
  const file = { name: "", mime: "image/png", base64: bytes.toString("base64") }
  const { message } = await hear({ text: "Look.", file })
  assert.equal(message.image.caption, "Look.")
  const fetched = await client.media.download({ mediaId: message.image.id, auth: "always" })
  assert.deepEqual(Buffer.from(fetched), bytes)
  const { url } = await client.media.get({ mediaId: message.image.id })
  assert.equal((await fetch(url)).status, 401)
})

test("a refusal is an error of the Graph API", async () => {
  const refused = async (call, code) => {
    const error = await call.then(() => undefined, (error) => error)
    assert.ok(error instanceof GraphApiError, `${error}`)
    assert.equal(error.code, code)
    return error
  }
  const stranger = new WhatsAppClient({ baseUrl: platform.url, graphVersion: "v26.0", accessToken: "wrong" })
  await refused(stranger.messages.sendText({ phoneNumberId, to: ada, body: "x" }), 190)
  await refused(client.messages.sendText({ phoneNumberId: "7", to: ada, body: "x" }), 100)
  await refused(client.messages.sendRaw({ phoneNumberId, payload: { to: ada } }), 131008)
  const long = { messaging_product: "whatsapp", to: ada, type: "text", text: { body: "x".repeat(4097) } }
  await refused(client.messages.sendRaw({ phoneNumberId, payload: long }), 131009)
  await platform.control("fault", { method: "messages", kind: "busy", after: 7 })
  const busy = await refused(client.messages.sendText({ phoneNumberId, to: ada, body: "x" }), 130429)
  assert.equal(busy.retry.retryAfterMs, 7_000)
})

test("a message after 24 hours is accepted and fails afterwards", async () => {
  await platform.control("later", { hours: 25 })
  const sent = await client.messages.sendText({ phoneNumberId, to: ada, body: "late" })
  const isIt = (status) => status.id === sent.messages[0].id
  const status = await webhook.until((seen) => seen.statuses.find(isIt))
  assert.equal(status.status, "failed")
  assert.equal(status.errors[0].code, 131047)
})

// A business's webhook: it knows the verify token and the app's secret, and parses with the client's own code.
class Webhook {
  static async start(verifyToken) {
    const webhook = new Webhook(verifyToken)
    await new Promise((resolve) => webhook.server.listen(0, "127.0.0.1", resolve))
    webhook.url = `http://127.0.0.1:${webhook.server.address().port}/whatsapp`
    return webhook
  }

  constructor(verifyToken) {
    this.verifyToken = verifyToken
    this.calls = []
    this.waiting = new Set()
    this.server = createServer((request, response) => this.answer(request, response))
  }

  async answer(request, response) {
    const { searchParams } = new URL(request.url, this.url)
    if (request.method === "GET") {
      const isKnown = searchParams.get("hub.verify_token") === this.verifyToken
      response.writeHead(isKnown ? 200 : 403).end(searchParams.get("hub.challenge"))
      return
    }
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    const rawBody = Buffer.concat(chunks)
    const signatureHeader = request.headers["x-hub-signature-256"]
    const isGenuine = verifySignature({ appSecret, rawBody, signatureHeader })
    this.calls.push({ isGenuine, ...normalizeWebhook(JSON.parse(rawBody)) })
    response.writeHead(200).end()
    this.waiting.forEach((look) => look())
  }

  // Resolves with the result of `find` over all received calls, as soon as there is one.
  until(find) {
    const all = () => find({
      messages: this.calls.flatMap((call) => call.messages),
      statuses: this.calls.flatMap((call) => call.statuses),
    })
    const found = new Promise((resolve) => {
      const look = () => {
        const it = all()
        if (it) this.waiting.delete(look), resolve(it)
      }
      this.waiting.add(look)
      look()
    })
    return within(10_000, found, "a call to the webhook", () => JSON.stringify(this.calls))
  }

  async stop() {
    this.server.closeAllConnections()
    await new Promise((resolve) => this.server.close(resolve))
  }
}
