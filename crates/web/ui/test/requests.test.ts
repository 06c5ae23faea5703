// Requests of the fold: their ends, told once, by the client that answered.

import assert from "node:assert/strict"
import { test } from "node:test"
import type { Input } from "../src/core/fold.ts"
import { type Ending, sameKind, shownEndings } from "../src/core/requests.ts"
import { requestsOf } from "../src/core/state.ts"
import { event, run } from "./support.ts"

const S = "ses_a"
let id = 0
const say = (type: string, properties: object): Input => ({ kind: "frame", id: ++id, event: event(type, { sessionID: S, ...properties }) })
const asked = (request: string, permission = "bash") =>
  say("permission.asked", { id: request, permission, patterns: ["touch a"], always: [] })
const replied = (request: string, more: object) => say("permission.replied", { requestID: request, ...more })
const client = (name?: string) => ({ by: { kind: "client", name } })
const begin: Input[] = [{ kind: "opened", resumed: false }, { kind: "settled" }, { kind: "now", ms: 1_000 }]
const shown = (world: ReturnType<typeof run>) =>
  shownEndings(world, [S]).map(({ outcome, by, isUnanswered }: Ending) => `${outcome} ${by?.name ?? by?.kind}${isUnanswered ? " unanswered" : ""}`)

test("the answer of another client is told for a moment", () => {
  const world = run([...begin, asked("per_1"), replied("per_1", { reply: "once", ...client("telegram") })])
  assert.equal(world.requests.size, 0)
  assert.deepEqual(shown(world), ["once telegram"])
  run([{ kind: "now", ms: 60_000 }], world)
  assert.deepEqual(shown(world), [])
})

test("the page's own answer is not told, whichever of event and answer comes first", () => {
  const own: Input[] = [{ kind: "answering", request: "per_1" }]
  const event = replied("per_1", { reply: "once", ...client("web") })
  const done: Input = { kind: "answered", request: "per_1" }
  for (const order of [[event, done], [done, event]]) {
    const world = run([...begin, asked("per_1"), ...own, ...order.map((it) => ("id" in it ? { ...it, id: ++id } : it))])
    assert.equal(world.requests.size, 0)
    assert.deepEqual(shown(world), [])
    assert.equal(world.answering.size, 0)
  }
})

test("an answer that came too late tells the one that counts, whichever of the two is heard first", () => {
  const late: Input[] = [{ kind: "answering", request: "per_1" }]
  const event = replied("per_1", { reply: "reject", ...client("telegram") })
  const gone: Input = { kind: "answered", request: "per_1", isElsewhere: true }
  for (const order of [[event, gone], [gone, event]]) {
    const world = run([...begin, asked("per_1"), ...late, ...order.map((it) => ("id" in it ? { ...it, id: ++id } : it))])
    assert.deepEqual(shown(world), ["reject telegram"])
  }
})

test("an unanswered request is told until the user closes the note", () => {
  const world = run([...begin, asked("per_1"), replied("per_1", { reply: "reject", unanswered: true, by: { kind: "timeout" } })])
  run([{ kind: "now", ms: 1e9 }], world)
  assert.deepEqual(shown(world), ["reject timeout unanswered"])
  run([{ kind: "ending", request: "per_1" }], world)
  assert.deepEqual(shown(world), [])
})

test("requests that end with their turn are not told, nor those that end while the page is not connected", () => {
  const world = run([...begin, asked("per_1"), replied("per_1", { reply: "reject", by: { kind: "server" } }), asked("per_2")])
  run([{ kind: "opened", resumed: false }, { kind: "settled" }], world)
  assert.equal(world.requests.size, 0)
  assert.deepEqual(shown(world), [])
})

test("ends are remembered up to a bound", () => {
  const world = run(begin)
  for (let at = 0; at < 50; at++) run([asked(`per_x${at}`), replied(`per_x${at}`, { reply: "once", ...client() })], world)
  assert.equal(world.endings.size, 20)
})

test("only permissions of the same kind are allowed together", () => {
  const question = say("question.asked", { id: "que_1", questions: [] })
  const world = run([...begin, asked("per_1"), asked("per_2", "edit"), asked("per_3"), question])
  const all = requestsOf(world, S)
  assert.deepEqual(sameKind(all, all[0]!).map((it) => it.id), ["per_1", "per_3"])
})
