// A user of a session that an external agent runs: sends prompts, records the events of a turn, and checks the invariants of
// every turn.

import assert from "node:assert/strict"
import { readdirSync, readFileSync } from "node:fs"
import { listen } from "../../support/stream.mjs"
import { within } from "../../support/wait.mjs"

const JSON_BODY = { "content-type": "application/json" }
// The first turn waits for the agent to start, which takes long on a small machine.
const TURN_MS = 90_000
const GONE_MS = 20_000

export class User {
  constructor(baton, model) {
    this.baton = baton
    this.model = model
  }

  async call(method, target, body) {
    const response = await this.baton.fetch(target, { method, headers: JSON_BODY, body: JSON.stringify(body) })
    const text = await response.text()
    assert.ok(response.ok, `${method} ${target}: ${response.status} ${text}\n${this.baton.stderr}`)
    return text ? JSON.parse(text) : undefined
  }

  create(body = {}) {
    return this.call("POST", "/session", body)
  }

  // Runs a turn of a session, or of a new one. `acts` maps event types, of any session, to actions.
  async turn(text, { session, acts = {} } = {}) {
    session ??= await this.create()
    return this.#watch(session, () => this.prompt(session, text), { acts, what: `the turn of ${text}` })
  }

  prompt(session, text) {
    const body = { model: this.model, parts: [{ type: "text", text }] }
    return this.call("POST", `/session/${session.id}/prompt_async`, body)
  }

  // Runs the turn of a call that answers at the end of the turn, such as one for a summary. A refusal is not an error here.
  async turnOf(session, target, body) {
    let answered
    const begin = async () => {
      answered = this.baton.fetch(`/session/${session.id}${target}`, {
        method: "POST",
        headers: JSON_BODY,
        body: JSON.stringify(body),
      })
    }
    const seen = await this.#watch(session, begin, { acts: {}, what: target })
    await (await answered).text()
    return seen
  }

  // Records a session from the beginning of a turn to its idle.
  async #watch(session, begin, { acts, what }) {
    const stream = await listen(this.baton)
    try {
      await begin()
      const over = (async () => {
        for await (const event of stream.tape.follow({ ms: TURN_MS })) {
          await acts[event.type]?.(event, session)
          if (event.type === "session.idle" && event.properties.sessionID === session.id) return
        }
      })()
      await within(TURN_MS, over, what, () => this.baton.stderr)
      return await this.#seen(session, [...stream.tape.events])
    } finally {
      await stream.close()
    }
  }

  // The events of a session, and its stored messages.
  async #seen(session, all) {
    const events = all.filter(({ properties }) => properties.sessionID === session.id)
    const statuses = events.filter(({ type }) => type === "session.status").map(({ properties }) => properties.status)
    const messages = await this.call("GET", `/session/${session.id}/message`)
    return { session, all, events, statuses, messages, parts: messages.flatMap(({ parts }) => parts) }
  }

  // The same for the children of a session.
  async children({ session, all }) {
    const found = await this.call("GET", `/session/${session.id}/children`)
    return Promise.all(found.map((child) => this.#seen(child, all)))
  }

  // An action for `acts` that answers a permission request.
  replies(reply) {
    const answer = ({ properties }) => this.call("POST", `/permission/${properties.id}/reply`, { reply })
    return { "permission.asked": answer }
  }

  // An action for `acts` that aborts a turn at its first text, or at the first text of a child.
  stops({ below = false } = {}) {
    let stopped
    const stop = ({ properties }, session) => {
      if (below && properties.sessionID === session.id) return
      return (stopped ??= this.call("POST", `/session/${session.id}/abort`))
    }
    return { "message.part.delta": stop }
  }
}

export const kinds = (statuses) => statuses.map(({ type }) => type)
export const said = (parts) => parts.filter(({ type, time }) => type === "text" && time).map(({ text }) => text).join("|")
export const tools = (parts) => parts.filter(({ type }) => type === "tool").map(({ tool, state }) => `${tool}:${state.status}`)

// The sessions in the order in which they became idle.
export const idles = ({ all }) => all.filter(({ type }) => type === "session.idle").map(({ properties }) => properties.sessionID)

// One busy, one idle, and nothing left open.
export function assertWhole({ statuses, messages, parts }, reason = "completed") {
  assert.deepEqual(kinds(statuses), ["busy", "idle"], "one busy, one idle")
  assert.equal(statuses.at(-1).reason, reason)
  const steps = messages.map(({ info }) => info).filter(({ role }) => role === "assistant")
  assert.ok(steps.every(({ time }) => time.completed), "every message is closed")
  for (const { type, state, tool } of parts) {
    if (type === "tool") assert.ok(["completed", "error"].includes(state.status), `${tool} is closed`)
  }
}

// The processes of a world whose command line contains these words, without processes that they have just forked: until a
// forked process executes its own program, it has the command line of its parent.
export function processes(world, words) {
  const found = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && isOf(world, name, words))
  return found.filter((id) => !found.includes(parentOf(id)))
}

function isOf(world, id, words) {
  try {
    const isOurs = readFileSync(`/proc/${id}/environ`, "utf8").includes(world.home)
    return isOurs && readFileSync(`/proc/${id}/cmdline`, "utf8").includes(words)
  } catch {
    return false
  }
}

function parentOf(id) {
  try {
    return readFileSync(`/proc/${id}/status`, "utf8").match(/^PPid:\t(\d+)/m)?.[1]
  } catch {
    return undefined
  }
}

// Waits until no such process is left.
export async function gone(world, words) {
  const none = async () => {
    while (processes(world, words).length > 0) await new Promise((resolve) => setImmediate(resolve))
  }
  await within(GONE_MS, none(), `all processes of \`${words}\` to be gone`)
}

// Waits until there are this many such processes.
export async function present(world, words, count = 1) {
  const some = async () => {
    while (processes(world, words).length < count) await new Promise((resolve) => setImmediate(resolve))
  }
  await within(TURN_MS, some(), `a process of \`${words}\``)
}
