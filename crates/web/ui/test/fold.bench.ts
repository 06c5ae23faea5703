// How many deltas a second the fold takes, with 100 sessions that stream at the same time. Prints one line.

import assert from "node:assert/strict"
import { event, run } from "./support.ts"
import { type Input, fold } from "../src/core/fold.ts"

const SESSIONS = 100
const DELTAS = 600_000

const input = (type: string, properties: object): Input => ({ kind: "frame", event: event(type, properties) })
const ids = (number: number) => ({ sessionID: `ses_${number}`, messageID: `msg_${number}`, partID: `prt_${number}` })

const opening = Array.from({ length: SESSIONS }, (_, number) => {
  const { sessionID, messageID, partID } = ids(number)
  const info = { role: "assistant", id: messageID, sessionID, parentID: "msg_0", time: { created: 1 } }
  const part = { id: partID, sessionID, messageID, type: "text", text: "", time: { start: 1 } }
  return [
    input("session.status", { sessionID, status: { type: "busy" } }),
    input("message.updated", { sessionID, info }),
    input("message.part.updated", { sessionID, part }),
  ]
})
const world = run([{ kind: "opened", resumed: false }, { kind: "settled" }, ...opening.flat()])
const deltas = Array.from({ length: SESSIONS }, (_, number) =>
  input("message.part.delta", { ...ids(number), field: "text", delta: "word " }),
)

const began = performance.now()
for (let number = 0; number < DELTAS; number++) fold(world, deltas[number % SESSIONS]!)
const seconds = (performance.now() - began) / 1000
const text = world.windows.get("ses_0")?.entries[0]?.parts[0]?.part.text
assert.equal(text?.length, (DELTAS / SESSIONS) * "word ".length, "every delta was added")
console.log(`${Math.round(DELTAS / seconds)} deltas/s`)
