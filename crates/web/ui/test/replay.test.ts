// The replay of recorded frames, and the choice of several rows.

import assert from "node:assert/strict"
import { test } from "node:test"
import { replay } from "../src/core/replay.ts"
import { extend, fitWidth } from "../src/core/select.ts"

const session = "ses_1"
const frames = [
  { id: 1, event: { type: "session.status", properties: { sessionID: session, status: { type: "busy" } } } },
  { id: 2, event: { type: "message.updated", properties: { info: { id: "msg_1", sessionID: session, role: "assistant", time: { created: 1 } } } } },
  { event: { type: "message.part.updated", properties: { part: { id: "prt_1", messageID: "msg_1", sessionID: session, type: "text", text: "Hel", time: { start: 1 } } } } },
  { event: { type: "message.part.delta", properties: { sessionID: session, messageID: "msg_1", partID: "prt_1", field: "text", delta: "lo" } } },
  { id: 3, event: { type: "permission.asked", properties: { id: "per_1", sessionID: session } } },
  { id: 4, event: { type: "session.status", properties: { sessionID: session, status: { type: "idle", reason: "aborted" } } } },
  { id: 4, event: { type: "session.status", properties: { sessionID: session, status: { type: "busy" } } } },
]

test("each prefix of a recording leads to the state of that moment", () => {
  const at = (count: number) => {
    const { status, requests, messages, text } = replay(frames.slice(0, count), session)
    return [status.type, requests, messages, text]
  }
  assert.deepEqual(at(0), ["idle", 0, 0, ""])
  assert.deepEqual(at(1), ["busy", 0, 0, ""])
  assert.deepEqual(at(3), ["busy", 0, 1, "Hel"])
  assert.deepEqual(at(4), ["busy", 0, 1, "Hello"])
  assert.equal(at(5)[1], 1)
  assert.equal(at(6)[0], "idle")
  assert.equal(at(7)[0], "idle", "a repeated frame has no effect")
  assert.equal(replay(frames, session).effective, 6)
})

test("shift extends the choice from its end, and takes a chosen row back", () => {
  const order = ["a", "b", "c", "d"]
  assert.deepEqual(extend(order, [], undefined, "b"), ["b"])
  assert.deepEqual(extend(order, ["b"], "b", "d"), ["b", "c", "d"])
  assert.deepEqual(extend(order, ["d"], "d", "b"), ["d", "b", "c"])
  assert.deepEqual(extend(order, ["b", "c"], "c", "b"), ["c"])
  assert.deepEqual(extend(order, [], "gone", "c"), ["c"])
  assert.deepEqual(extend(order, ["a"], "a", "gone"), ["a"])
})

test("the list is between 220 and 420 pixels wide", () => {
  assert.deepEqual([1, 220, 300.4, 900].map(fitWidth), [220, 220, 300, 420])
})
