// A server under measurement, and how its page addresses a session.

import { within } from "../../support/wait.mjs"
import { PATIENCE_MS } from "./probe.mjs"

// Prompts without an answer that are sent at once while a long session is written.
const WRITERS = 8
const POLL_MS = 50

export class Side {
  constructor(server, address) {
    this.server = server
    this.address = address
  }

  page = (session) => `${this.server.url}/${this.address(session, this.server)}`

  read = async (target) => (await this.server.fetch(target)).json()

  async call(target, body) {
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }
    const response = await this.server.fetch(target, init)
    if (!response.ok) throw new Error(`${target}: ${response.status} ${await response.text()}`)
    return response.status === 204 ? undefined : response.json()
  }

  async session(title) {
    return (await this.call("/session", { title })).id
  }

  prompt = (session, text, more = {}) =>
    this.call(`/session/${session}/prompt_async`, { parts: [{ type: "text", text }], ...more })

  idle(session) {
    const isIdle = async () => ((await this.read("/session/status"))[session]?.type ?? "idle") === "idle"
    return until(isIdle, PATIENCE_MS * 4, "the session to become idle")
  }

  // A session with one short turn.
  async short(title) {
    const session = await this.session(title)
    await this.prompt(session, "hello")
    const hasAnswer = async () => JSON.stringify(await this.read(`/session/${session}/message`)).includes("A short answer")
    await until(hasAnswer, PATIENCE_MS, "an answer")
    await this.idle(session)
    return session
  }

  // Adds prompts that ask for no answer.
  async write(session, texts) {
    const add = (text) => this.call(`/session/${session}/message`, { parts: [{ type: "text", text }], noReply: true })
    for (let at = 0; at < texts.length; at += WRITERS) await Promise.all(texts.slice(at, at + WRITERS).map(add))
  }

  // A session with many prompts, the first and the last of which can be recognized.
  async long(count, title = "A long session") {
    const session = await this.session(title)
    const text = (number) => `Message number ${number} of a long session.`
    await this.write(session, [text("first")])
    await this.write(session, Array.from({ length: count - 2 }, (_, number) => text(number)))
    await this.write(session, [text("last")])
    return session
  }
}

async function until(check, ms, what) {
  let isOver = false
  const loop = async () => {
    while (!isOver && !(await check())) await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
  await within(ms, loop(), what).finally(() => (isOver = true))
}
