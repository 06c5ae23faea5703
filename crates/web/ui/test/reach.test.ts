// Windows with a gap, families, and marks of other devices.

import assert from "node:assert/strict"
import { test } from "node:test"
import type { Input } from "../src/core/fold.ts"
import { ancestors, childrenOf, totals } from "../src/core/family.ts"
import { rowState, statement } from "../src/core/state.ts"
import type { MessageRead } from "../src/core/transcript.ts"
import type { Session } from "../src/core/wire.ts"
import { event, run } from "./support.ts"

const S = "ses_a"
let id = 0
const say = (type: string, properties: object): Input => ({ kind: "frame", id: ++id, event: event(type, { sessionID: S, ...properties }) })
const begin: Input[] = [{ kind: "opened", resumed: false }, { kind: "settled" }]
const name = (at: number) => `msg_${String(at).padStart(3, "0")}`
const message = (at: number) => ({
  info: { role: "user" as const, id: name(at), sessionID: S, time: { created: at } },
  parts: [],
})
const span = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => message(from + at))
const cursor = (at: number) => `cursor ${at}`

type World = ReturnType<typeof run>
const read = (world: World, range: MessageRead["range"], from: number, to: number, newest = 100) =>
  run(
    [
      {
        kind: "messages",
        began: world.tick,
        read: {
          sessionID: S,
          messages: span(from, to),
          older: from > 1 ? cursor(from) : null,
          newer: to < newest ? cursor(to) : null,
          range,
        },
      },
    ],
    world,
  )
const loaded = (world: World) => world.windows.get(S)!.entries.map(({ info }) => info.time.created)
const opened = () => read(run([...begin, { kind: "show", session: S }]), "newest", 91, 100)

test("a jump leaves one gap, which pages from either side close", () => {
  const world = opened()
  read(world, "around", 20, 29)
  assert.deepEqual(world.windows.get(S)!.gap, { last: name(29), newer: cursor(29) })
  assert.equal(world.windows.get(S)!.older, cursor(20))
  read(world, "newer", 30, 60)
  assert.deepEqual(world.windows.get(S)!.gap, { last: name(60), newer: cursor(60) })
  read(world, "newer", 61, 95)
  assert.equal(world.windows.get(S)!.gap, null)
  assert.deepEqual(loaded(world), span(20, 100).map(({ info }) => info.time.created))
})

test("a jump that overlaps the loaded messages leaves no gap", () => {
  const world = opened()
  read(world, "around", 86, 95)
  assert.equal(world.windows.get(S)!.gap, null)
  assert.deepEqual(loaded(world), span(86, 100).map(({ info }) => info.time.created))
})

test("a second jump gives up the messages before the first gap", () => {
  const world = opened()
  read(world, "around", 20, 29)
  read(world, "around", 50, 59)
  assert.deepEqual(loaded(world), [...span(50, 59), ...span(91, 100)].map(({ info }) => info.time.created))
  assert.deepEqual(world.windows.get(S)!.gap, { last: name(59), newer: cursor(59) })
})

test("the end of a turn keeps the gap and the beginning of the window, a resync drops both", () => {
  const world = opened()
  read(world, "around", 20, 29)
  read(world, "newest", 92, 101, 101)
  assert.equal(world.windows.get(S)!.older, cursor(20))
  assert.ok(world.windows.get(S)!.gap)
  run([{ kind: "opened", resumed: false }], world)
  read(world, "newest", 92, 101, 101)
  assert.deepEqual([world.windows.get(S)!.older, world.windows.get(S)!.gap], [cursor(92), null])
  assert.deepEqual(loaded(world), span(92, 101).map(({ info }) => info.time.created))
})

test("a gap stays where it is if the message before it is removed", () => {
  const world = opened()
  read(world, "around", 20, 29)
  run([say("message.removed", { messageID: name(29) })], world)
  assert.equal(world.windows.get(S)!.gap?.last, name(28))
})

const turn = (reason = "completed") => [say("session.status", { status: { type: "busy" } }), say("session.status", { status: { type: "idle", reason } })]
const info = (more: Partial<Session> = {}): Session => ({ id: S, title: "t", directory: "/d", time: { created: 1, updated: 1 }, ...more })
const end = (world: World) => world.ends.get(S)!.id

test("a session that another device has shown is read here", () => {
  const world = run([...begin, ...turn()])
  assert.equal(rowState(world, S), "done")
  run([say("session.seen", { cursor: end(world) - 1 })], world)
  assert.equal(rowState(world, S), "done", "that device has not seen the end")
  run([say("session.seen", { cursor: end(world) })], world)
  assert.equal(rowState(world, S), "idle")
})

test("a session that another device marks as unread is unread here, until it is shown anywhere", () => {
  const world = run([...begin, ...turn("error"), { kind: "watch", session: S }, { kind: "watch", session: null }])
  assert.equal(rowState(world, S), "idle")
  run([say("session.seen", { cursor: 0 })], world)
  assert.equal(rowState(world, S), "error")
  run([say("session.seen", { cursor: end(world) })], world)
  assert.equal(rowState(world, S), "idle")
})

test("the server is told of ends that the user has seen here, once", () => {
  const world = run([...begin, { kind: "sessions", began: 2, sessions: [info()] }, ...turn()])
  assert.equal(world.owed.size, 0, "not seen yet")
  run([{ kind: "watch", session: S }], world)
  assert.deepEqual([...world.owed], [[S, end(world)]])
  world.owed.clear()
  run([say("session.seen", { cursor: end(world) }), { kind: "watch", session: null }, { kind: "watch", session: S }], world)
  assert.equal(world.owed.size, 0, "it knows")
  run(turn(), world)
  assert.deepEqual([...world.owed], [[S, end(world)]], "a turn that ends before the user's eyes")
})

test("marks of other devices from before the page was opened count", () => {
  const world = run([...begin, ...turn()])
  run([{ kind: "sessions", began: world.tick, sessions: [info({ seen: end(world) })] }], world)
  assert.equal(rowState(world, S), "idle")
  const fresh = run([...begin, { kind: "sessions", began: 9, sessions: [info({ seen: 0 })] }])
  assert.equal(rowState(fresh, S), "done")
})

test("a family adds its members, and replaces nothing that is known", () => {
  const tokens = { input: 5, output: 3, reasoning: 0, cache: { read: 0, write: 0 } }
  const member = (id: string, parentID?: string) => ({ id, parentID, title: id, tokens, cost: 1, time: { created: 1, updated: 1 }, status: { type: "idle" } })
  const model = { id: "m", providerID: "p" }
  const world = run([...begin, { kind: "sessions", began: 2, sessions: [info({ model })] }])
  const family = { rootID: S, sessions: [member(S), member("ses_b", S), member("ses_c", "ses_b")] }
  run([{ kind: "family", began: world.tick, directory: "/d", family }], world)
  assert.deepEqual(ancestors(world, "ses_c"), [S, "ses_b"])
  assert.deepEqual(childrenOf(world, S).map((it) => [it.id, it.directory, it.isPartial]), [["ses_b", "/d", true]])
  assert.deepEqual(world.sessions.get(S)!.info.model, model)
  assert.deepEqual(totals(world, S), { sessions: 3, working: 0, input: 15, output: 9, cost: 3 })
})

test("a tab that joins learns of a countdown, and a new epoch forgets it", () => {
  const world = run([...begin, say("session.status", { status: { type: "busy" } }), say("continuation.countdown", { n: 1, open: 2, until: 9 })])
  assert.deepEqual(statement(world).map(({ event }) => event.type), ["session.status", "continuation.countdown"])
  run([{ kind: "opened", resumed: false }, { kind: "settled" }], world)
  assert.equal(world.countdowns.size, 0)
})
