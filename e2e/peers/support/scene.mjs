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

// Plays a scenario. `acts` says what to do at which kind of event, `then` what to do after each idle; what they return is
// waited for. The scene is over after `ends` idles more than there are things to do.
export async function play(server, { prompt, acts = {}, then = [], ends = 1 }) {
  const stream = await listen(server)
  try {
    const session = await call(server, "POST", "/session", { title: "A scene" })
    await call(server, "POST", `/session/${session.id}/prompt_async`, { parts: [{ type: "text", text: prompt }] })
    await follow(server, stream.tape, session.id, { acts, then, ends })
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
