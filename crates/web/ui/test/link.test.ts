// The connection: cursor, silence, waits, and the end of the opening statement.

import assert from "node:assert/strict"
import { test } from "node:test"
import { BACKOFF_MS, LONGEST_SETTLE_MS, Link, SETTLE_MS, SILENCE_MS } from "../src/core/link.ts"
import type { Frame } from "../src/core/wire.ts"
import { Clock, rest } from "./clock.ts"

function setUp(answers: (() => Response | Promise<Response>)[]) {
  const clock = new Clock()
  const story: string[] = []
  const opened: (number | null)[] = []
  let cursor: number | null = null
  let stream: ReadableStreamDefaultController<Uint8Array> | undefined
  const body = () => new Response(new ReadableStream({ start: (controller) => void (stream = controller) }))
  const link = new Link(
    {
      open: async (from, signal) => {
        opened.push(from)
        const answer = await (answers.shift() ?? body)()
        signal.addEventListener("abort", () => stream?.error(new Error("aborted")))
        return answer
      },
      now: () => clock.now,
      random: () => 0.5,
      later: clock.later,
    },
    {
      opened: (resumed) => story.push(resumed ? "resumed" : "fresh"),
      frames: (frames: Frame[]) => {
        for (const { id, event } of frames) {
          story.push(event.type)
          cursor = id ?? cursor
        }
      },
      settled: () => story.push("settled"),
      unreadable: (count) => story.push(`unreadable ${count}`),
      phase: ({ kind }) => story.push(kind),
      cursor: () => cursor,
    },
  )
  const say = async (type: string, id?: number) => {
    const data = JSON.stringify({ payload: { type, properties: { partID: "p", field: "text", delta: "x" } } })
    stream?.enqueue(new TextEncoder().encode(`${id ? `id: ${id}\n` : ""}data: ${data}\n\n`))
    await rest()
  }
  const end = async () => {
    stream?.close()
    await rest()
  }
  return { clock, story, opened, link, say, end }
}

test("a clean end counts as a drop, and the next connection resumes after the cursor", async () => {
  const { clock, story, opened, link, say, end } = setUp([])
  link.start()
  await rest()
  await say("server.connected")
  await say("session.updated", 41)
  await clock.pass(SETTLE_MS)
  await end()
  await clock.pass(BACKOFF_MS[0]!)
  assert.deepEqual(opened, [null, 41])
  assert.deepEqual(story, ["fresh", "live", "server.connected", "session.updated", "settled", "waiting", "resumed", "live"])
  link.close()
})

test("silence drops the connection, and heartbeats keep it", async () => {
  const { clock, opened, link, say } = setUp([])
  link.start()
  await rest()
  for (let beat = 0; beat < 5; beat++) {
    await clock.pass(SILENCE_MS - 1_000)
    await say("server.heartbeat")
  }
  assert.equal(opened.length, 1)
  await clock.pass(SILENCE_MS + BACKOFF_MS[0]!)
  assert.equal(opened.length, 2)
  link.close()
})

test("waits grow while the server is away, and hurry ends a wait", async () => {
  const fail = () => Promise.reject(new Error("refused"))
  const { clock, story, opened, link } = setUp([fail, fail, fail, fail, fail, fail, fail])
  link.start()
  const expected = [...BACKOFF_MS, BACKOFF_MS.at(-1)!]
  for (const [index, ms] of expected.entries()) {
    await rest()
    assert.equal(opened.length, index + 1)
    await clock.pass(ms)
  }
  await rest()
  const before = opened.length
  link.hurry()
  await rest()
  assert.equal(opened.length, before + 1)
  assert.equal(story.at(-1), "live")
  link.close()
})

test("a server that wants a password or refuses the page is not asked again", async () => {
  for (const [status, phase] of [
    [401, "signin"],
    [403, "refused"],
  ] as const) {
    const { clock, story, opened, link } = setUp([() => new Response("{}", { status })])
    link.start()
    await clock.pass(60_000)
    assert.deepEqual([story, opened.length, clock.waiting], [[phase], 1, 0])
  }
})

test("the opening statement ends with the first delta, with server.ready, or after a second without a pause", async () => {
  for (const [last, expected] of [
    ["message.part.delta", ["settled", "message.part.delta"]],
    ["server.ready", ["settled", "server.ready"]],
  ] as const) {
    const { story, link, say } = setUp([])
    link.start()
    await rest()
    await say("session.status")
    await say(last)
    assert.deepEqual(story.slice(-2), expected)
    link.close()
  }
  const { clock, story, link, say } = setUp([])
  link.start()
  await rest()
  for (let ms = 0; ms <= LONGEST_SETTLE_MS; ms += SETTLE_MS / 2) {
    await say("session.updated")
    await clock.pass(SETTLE_MS / 2)
  }
  assert.ok(story.includes("settled"))
  link.close()
})
