// The decoder of the event stream.

import assert from "node:assert/strict"
import { test } from "node:test"
import { Decoder, join } from "../src/core/sse.ts"
import { dice } from "./support.ts"

const TEXT = [
  'data: {"payload":{"type":"server.connected","properties":{}}}',
  "",
  ": a comment",
  "id: 7",
  'data: {"directory":"/p","payload":{"type":"session.idle","properties":{"sessionID":"ses_ü€😀"}}}',
  "",
  "data: not json",
  "",
  'data: {"payload":{"type":"a",',
  'data: "properties":{}}}',
  "",
  "",
].join("\n")

const EXPECTED = [
  { id: undefined, directory: undefined, event: { type: "server.connected", properties: {} } },
  { id: 7, directory: "/p", event: { type: "session.idle", properties: { sessionID: "ses_ü€😀" } } },
  { id: undefined, directory: undefined, event: { type: "a", properties: {} } },
]

test("frames are the same wherever the network cuts them, with every kind of line break", () => {
  for (const text of [TEXT, TEXT.replaceAll("\n", "\r\n"), TEXT.replaceAll("\n", "\r")]) {
    const bytes = new TextEncoder().encode(`${text}: end\n`)
    for (let seed = 0; seed < 50; seed++) {
      const random = dice(seed)
      const decoder = new Decoder()
      const frames = []
      for (let at = 0; at < bytes.length; ) {
        const length = 1 + random.below(seed === 0 ? 1 : 40)
        frames.push(...decoder.push(bytes.slice(at, at + length)))
        at += length
      }
      assert.deepEqual(frames, EXPECTED, `seed ${seed}`)
      assert.equal(decoder.unreadable, 1)
    }
  }
})

test("neighbouring deltas of one part are joined, and nothing else", () => {
  const delta = (partID: string, text: string, id?: number) => ({
    id,
    event: { type: "message.part.delta", properties: { partID, field: "text", delta: text } },
  })
  const other = { id: 3, event: { type: "session.idle", properties: {} } }
  const joined = join([delta("a", "1"), delta("a", "2"), delta("b", "3"), delta("b", "4"), other, delta("b", "5")])
  assert.deepEqual(
    joined.map(({ event }) => event.properties.delta),
    ["12", "34", undefined, "5"],
  )
})
