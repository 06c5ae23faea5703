// The queue, countdowns, unread marks and notices of the fold.

import assert from "node:assert/strict"
import { test } from "node:test"
import { type Input, fold } from "../src/core/fold.ts"
import { ancestors, siblings, totals } from "../src/core/family.ts"
import { rowState, waitingBehind } from "../src/core/state.ts"
import { createWorld } from "../src/core/world.ts"
import { event, run } from "./support.ts"

const S = "ses_a"
let id = 0
const say = (type: string, properties: object): Input => ({ kind: "frame", id: ++id, event: event(type, { sessionID: S, ...properties }) })
const open: Input[] = [{ kind: "opened", resumed: false }, { kind: "settled" }]
const busy = () => say("session.status", { status: { type: "busy" } })
const idle = (reason = "completed") => say("session.status", { status: { type: "idle", reason } })
const queue = (world: ReturnType<typeof createWorld>) => world.waiting.get(S)?.map(({ id, delivery }) => `${id} ${delivery}`) ?? []

test("the queue follows events, and a change of order replaces it", () => {
  const world = run([
    ...open,
    busy(),
    say("prompt.queued", { messageID: "m1", delivery: "queue" }),
    say("prompt.queued", { messageID: "m2", delivery: "steer" }),
  ])
  assert.deepEqual(queue(world), ["m1 queue", "m2 steer"])
  run([say("session.queue.updated", { queue: [{ messageID: "m2", delivery: "queue" }, { messageID: "m1", delivery: "queue" }] })], world)
  assert.deepEqual(queue(world), ["m2 queue", "m1 queue"])
  run([say("prompt.started", { messageID: "m2" }), say("prompt.ended", { messageID: "m1", reason: "withdrawn" })], world)
  assert.deepEqual(queue(world), [])
})

test("the prompt that a turn starts with does not wait behind it", () => {
  const waiting = (world: ReturnType<typeof createWorld>) => waitingBehind(world, S).map(({ id }) => id)
  const world = run([...open, { kind: "now", ms: 5_000 }, say("prompt.queued", { messageID: "m1" }), busy()])
  assert.deepEqual(waiting(world), [])
  run([say("prompt.queued", { messageID: "m2" })], world)
  assert.deepEqual(waiting(world), ["m2"])
  run([say("prompt.started", { messageID: "m1" })], world)
  assert.deepEqual(waiting(world), ["m2"])
  run([idle()], world)
  assert.deepEqual(waiting(world), [])
  const stuck = run([...open, { kind: "now", ms: 5_000 }, say("prompt.queued", { messageID: "m1" }), busy(), { kind: "now", ms: 6_000 }])
  assert.deepEqual(waiting(stuck), ["m1"], "a turn that does not start hides its prompt only for a moment")
})

test("a read of the queue that began before a change does not bring a prompt back", () => {
  const world = run([...open, busy(), say("prompt.queued", { messageID: "m1", delivery: "queue" })])
  const began = world.tick
  run([say("prompt.started", { messageID: "m1" })], world)
  run([{ kind: "queue", began, session: S, queue: [{ messageID: "m1", delivery: "queue" }] }], world)
  assert.deepEqual(queue(world), [])
  run([{ kind: "queue", began: world.tick, session: S, queue: [{ messageID: "m2", delivery: "steer" }] }], world)
  assert.deepEqual(queue(world), ["m2 steer"])
})

test("a countdown ends with the continuation, a stop, or the turn", () => {
  for (const end of [say("continuation.started", { n: 1 }), say("continuation.stopped", { reason: "stop" })]) {
    const world = run([...open, busy(), { ...say("continuation.countdown", { n: 1, open: 2, until: 9 }), id: ++id } as Input])
    assert.equal(world.countdowns.get(S)?.until, 9)
    run([{ ...end, id: ++id } as Input], world)
    assert.equal(world.countdowns.size, 0)
  }
  const world = run([...open, busy(), say("continuation.countdown", { n: 1, open: 2, until: 9 }), idle("aborted")])
  assert.equal(world.countdowns.size, 0)
})

test("a turn that ends unseen is unread, until the user has looked at it", () => {
  const world = run([...open, busy(), idle("error")])
  assert.equal(rowState(world, S), "error")
  run([{ kind: "show", session: S }], world)
  assert.equal(rowState(world, S), "error", "opening alone is not looking")
  run([{ kind: "watch", session: S }], world)
  assert.equal(rowState(world, S), "idle")
  run([busy(), idle()], world)
  assert.equal(rowState(world, S), "idle", "the user looks at it")
  run([{ kind: "watch", session: null }, busy(), idle()], world)
  assert.equal(rowState(world, S), "done")
  run([{ kind: "seen", session: S, id: world.cursor! }], world)
  assert.equal(rowState(world, S), "idle", "seen in another tab")
})

test("an end that another tab has shown already is not unread", () => {
  const world = run([...open, busy()])
  run([{ kind: "seen", session: S, id: id + 1 }, idle()], world)
  assert.equal(rowState(world, S), "idle")
})

const keys = (world: ReturnType<typeof createWorld>) => world.notices.map(({ kind, session }) => `${kind} ${session}`)

test("requests, failures and ends are news, short turns brief ones; the opening statement is none", () => {
  const world = createWorld()
  run([{ kind: "opened", resumed: false }, say("permission.asked", { id: "per_0", patterns: [], always: [] }), { kind: "settled" }], world)
  assert.deepEqual(keys(world), [], "the first load is silent")
  run([{ kind: "now", ms: 1_000 }, busy(), { kind: "now", ms: 5_000 }, idle()], world)
  assert.deepEqual(keys(world), [`brief ${S}`], "a short turn causes no notification")
  run([busy(), { kind: "now", ms: 16_000 }, idle()], world)
  assert.deepEqual(keys(world).slice(1), [`completed ${S}`])
  run([busy(), idle("error"), busy(), idle("aborted")], world)
  assert.deepEqual(keys(world).slice(2), [`failed ${S}`], "the user knows what they have stopped")
})

test("a request of a child is news of its root, once, and the end of a child is none", () => {
  const child = { id: "ses_c", title: "c", directory: "/p", parentID: S, time: { created: 1, updated: 1 } }
  const world = run([...open, say("session.created", { info: child })])
  const asked = { id: "per_1", sessionID: "ses_c", patterns: [], always: [] }
  run([say("permission.asked", asked), { kind: "frame", event: event("permission.asked", asked) }], world)
  run([say("session.status", { sessionID: "ses_c", status: { type: "busy" } }), say("session.status", { sessionID: "ses_c", status: { type: "idle", reason: "error" } })], world)
  assert.deepEqual(keys(world), [`request ${S}`])
})

test("a repeated frame makes no second notice", () => {
  const world = run([...open, busy()])
  const end = idle("error")
  run([end, structuredClone(end)], world)
  assert.equal(world.notices.length, 1)
})

test("a prompt waits here while the server is down, and one that was sent before leaves no trace", () => {
  const prompt = { id: "msg_1", sessionID: S, text: "hello", delivery: "steer" as const, created: 1 }
  const world = run([...open, { kind: "send", prompt }, { kind: "held", id: "msg_1" }])
  assert.equal(world.prompts.get("msg_1")?.fate, "held")
  run([{ kind: "sent", id: "msg_1", isRepeated: true }], world)
  assert.equal(world.prompts.size, 0)
  run([{ kind: "send", prompt }, { kind: "held", id: "msg_1" }, { kind: "failed", id: "msg_1", error: "too large" }], world)
  assert.equal(world.prompts.get("msg_1")?.fate, "failed")
  run([say("session.deleted", { info: { id: S } })], world)
  assert.equal(world.prompts.size, 1, "the only copy of a text stays")
})

test("a family has ancestors, siblings and totals", () => {
  const tokens = { input: 1, output: 2, reasoning: 0, cache: { read: 3, write: 0 } }
  const make = (id: string, parentID?: string) => ({ id, title: id, directory: "/p", parentID, tokens, cost: 0.5, time: { created: 1, updated: 1 } })
  const sessions = [make("a"), make("b", "a"), make("c", "a"), make("d", "c")]
  const world = run([...open, { kind: "sessions", began: 99, sessions }])
  assert.deepEqual(ancestors(world, "d"), ["a", "c"])
  assert.deepEqual(siblings(world, "c"), { before: "b", after: undefined, index: 2, count: 2 })
  assert.deepEqual(totals(world, "a"), { sessions: 4, working: 0, input: 16, output: 8, cost: 2 })
  fold(world, { kind: "sessions", began: 99, sessions: [make("a", "d")] })
  assert.ok(ancestors(world, "d").length <= 64, "a loop in the data ends")
})
