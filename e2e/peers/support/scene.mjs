// One scenario on one server: what came through the event stream, and what the record says afterwards.

import assert from "node:assert/strict"
import { listen } from "../../support/stream.mjs"
import { sessionOf } from "../../support/tape.mjs"

const JSON_BODY = { "content-type": "application/json" }

async function call(server, method, target, body) {
  const response = await server.fetch(target, { method, headers: JSON_BODY, body: JSON.stringify(body) })
  const text = await response.text()
  assert.ok(response.ok, `${method} ${target}: ${response.status} ${text}`)
  return text ? JSON.parse(text) : undefined
}

// Plays a scenario. `acts` says what to do at which kind of event; what it returns is waited for.
export async function play(server, { prompt, acts = {}, ends = 1 }) {
  const stream = await listen(server)
  try {
    const session = await call(server, "POST", "/session", { title: "A scene" })
    await call(server, "POST", `/session/${session.id}/prompt_async`, { parts: [{ type: "text", text: prompt }] })
    await follow(server, stream.tape, session.id, { acts, ends })
    const messages = await call(server, "GET", `/session/${session.id}/message`)
    const record = await call(server, "GET", `/session/${session.id}`)
    return { events: stream.tape.of(session.id).map(plain), messages, session: record }
  } finally {
    await stream.close()
  }
}

// Every event has an id of its own, which says nothing.
const plain = ({ type, properties }) => ({ type, properties })

// Acts on what happens until the session is idle for good.
async function follow(server, tape, session, { acts, ends }) {
  let idle = 0
  for await (const event of tape.follow()) {
    if (sessionOf(event) !== session) continue
    await acts[event.type]?.({ call: (...args) => call(server, ...args), event, session })
    if (event.type === "session.idle" && (idle += 1) === ends) return
  }
}
