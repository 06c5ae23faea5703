// One scenario on one server: the events that the streams sent, and the stored record afterwards.

import assert from "node:assert/strict"
import { listen } from "../../support/stream.mjs"
import { sessionOf } from "../../support/tape.mjs"

// Attempts to receive an event on a stream, and the time for each.
const ATTEMPTS = 20
const HEARD_MS = 500
const JSON_BODY = { "content-type": "application/json" }

async function call(server, method, target, body) {
  const response = await server.fetch(target, { method, headers: JSON_BODY, body: JSON.stringify(body) })
  const text = await response.text()
  assert.ok(response.ok, `${method} ${target}: ${response.status} ${text}`)
  return text ? JSON.parse(text) : undefined
}

// Plays a scenario. `acts` maps event types to actions, and `then` lists an action for each idle; both are awaited. The scene
// ends `ends` idles after the last action of `then`.
export async function play(server, { prompt, acts = {}, then = [], ends = 1 }) {
  const [stream, global] = await Promise.all([listen(server), listen(server, { target: "/global/event" })])
  try {
    await heard(server, global.tape)
    const session = await call(server, "POST", "/session", { title: "A scene" })
    await call(server, "POST", `/session/${session.id}/prompt_async`, { parts: [{ type: "text", text: prompt }] })
    await follow(server, stream.tape, session.id, { acts, then, ends })
    await idles(global.tape, session.id, ends + then.length)
    const record = async (id) => ({
      events: stream.tape.of(id).map(plain),
      global: global.tape.events.filter(({ payload }) => isAbout(payload, id)).map(flat),
      messages: await call(server, "GET", `/session/${id}/message`),
      session: await call(server, "GET", `/session/${id}`),
    })
    const children = []
    for (const { id } of await call(server, "GET", `/session/${session.id}/children`)) children.push(await record(id))
    return { ...(await record(session.id)), children }
  } finally {
    await Promise.all([stream.close(), global.close()])
  }
}

// Removes the id of an event, which differs in each run.
const plain = ({ type, properties }) => ({ type, properties })
// The same for the stream of all directories, whose events also carry their directory.
const flat = ({ payload, ...where }) => ({ ...plain(payload), ...where })
// OpenCode sends each durable event a second time, as a sync event.
const isAbout = (payload, id) => sessionOf(payload) === id || payload.syncEvent?.aggregateID === id

// OpenCode reports that a client is connected to all directories a moment too early, and loses the events in between.
async function heard(server, tape) {
  const isToast = ({ payload }) => payload.type === "tui.toast.show"
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    await call(server, "POST", "/tui/show-toast", { message: "Do you hear me?", variant: "info" })
    const toast = await tape.until(isToast, "a toast", { ms: HEARD_MS }).catch(() => undefined)
    if (toast) return
  }
  assert.fail("/global/event sends nothing")
}

// Waits until the stream of all directories has sent as many idles.
async function idles(tape, session, count) {
  let seen = 0
  const isIdle = ({ payload }) => payload.type === "session.idle" && sessionOf(payload) === session
  await tape.until((frame) => isIdle(frame) && ++seen === count, `idle number ${count} on /global/event`)
}

// Runs the actions until the last idle of the session.
async function follow(server, tape, session, { acts, then, ends }) {
  let idle = 0
  const tools = { call: (...args) => call(server, ...args), session }
  for await (const event of tape.follow()) {
    if (sessionOf(event) !== session) continue
    await acts[event.type]?.({ ...tools, event })
    if (event.type !== "session.idle") continue
    const next = then[idle]
    idle += 1
    if (next) await next(tools)
    if (idle === ends + then.length) return
  }
}
