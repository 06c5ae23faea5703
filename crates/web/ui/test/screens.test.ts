// The panels' and screens' data: rows of a review, matches, totals, tiles, recorded frames.

import assert from "node:assert/strict"
import { test } from "node:test"
import { MAX_FILES, PART_ROWS, type Layout, diffRows, entries, foldedAtFirst } from "../src/core/changes.ts"
import { MAX_MATCHES, findIn, rank } from "../src/core/find.ts"
import { fold } from "../src/core/fold.ts"
import { groups, latest, needs, tiles } from "../src/core/overview.ts"
import { MAX_FRAMES, Recorder, sessionOf } from "../src/core/recorder.ts"
import { add, contextIn, contextOf, level, totals } from "../src/core/totals.ts"
import { offsets, visible } from "../src/core/window.ts"
import { createWorld } from "../src/core/world.ts"

const layout: Layout = { isSplit: false, ignoresSpace: false, folded: new Set(), parts: new Map() }
const patch = (lines: number) =>
  `--- a/x\n+++ b/x\n@@ -0,0 +1,${lines} @@\n${Array.from({ length: lines }, (_, at) => `+${at}\n`).join("")}`

test("a comment and the box of a new one follow their line, and other rows keep their identity", () => {
  const all = entries([{ file: "x", patch: patch(3), additions: 3, deletions: 0 }])
  const plain = diffRows(all, layout, [])
  assert.deepEqual(plain.map((row) => row.kind), ["file", "hunk", "line", "line", "line"])
  const comment = { id: "1", file: "x", side: "now" as const, from: 1, to: 2, lines: ["0", "1"], text: "?", time: 0 }
  const draft = { file: "x", side: "now" as const, from: 3, to: 3 }
  const rows = diffRows(all, layout, [comment], draft)
  assert.deepEqual(rows.map((row) => row.kind), ["file", "hunk", "line", "line", "comment", "line", "editor"])
  assert.deepEqual(rows.filter((row) => row.kind === "line"), plain.filter((row) => row.kind === "line"))
  assert.equal(rows[0], plain[0])
  assert.equal(rows[4], diffRows(all, layout, [comment])[4])
})

test("large reviews have bounds: files, folded files, parts of a file", () => {
  const many = entries(Array.from({ length: MAX_FILES + 10 }, (_, at) => ({ file: `f${at}`, additions: 100, deletions: 0, patch: patch(100) })))
  const folded = foldedAtFirst(many)
  assert.equal(folded.has(many[0]!.file), false)
  assert.ok(folded.size > 400, "only the first files are open")
  assert.ok(diffRows(many, { ...layout, folded }, []).length < 5_000)
  assert.deepEqual(diffRows(many, { ...layout, folded }, []).filter((row) => row.kind === "file").length, MAX_FILES)
  const big = entries([{ file: "big", additions: 20_000, deletions: 0, patch: patch(20_000) }])
  assert.ok(foldedAtFirst(big).has("big"))
  const rows = diffRows(big, layout, [])
  assert.equal(rows.length, PART_ROWS + 2)
  assert.deepEqual(rows.at(-1), { kind: "note", entry: big[0], note: "more" })
})

test("changes of several turns of one file are one entry", () => {
  const [entry] = entries([
    { file: "x", patch: patch(1), additions: 1, deletions: 0, status: "added" },
    { file: "x", patch: patch(2), additions: 2, deletions: 0, status: "modified" },
  ])
  assert.equal(entry!.additions, 3)
  assert.equal(diffRows([entry!], layout, []).filter((row) => row.kind === "hunk").length, 2)
})

test("a long list draws the rows on the screen", () => {
  const tops = offsets([10, 20, 30, 40], (height) => height)
  assert.deepEqual([...tops], [0, 10, 30, 60, 100])
  assert.deepEqual(visible(tops, 12, 20, 0), [1, 3])
  assert.deepEqual(visible(tops, 12, 20, 1), [0, 4])
  assert.deepEqual(visible(offsets([], () => 1), 0, 100, 3), [0, 0])
})

test("matches are counted, in order, without regard to case", () => {
  const found = findIn([{ id: "a", text: "One one" }, { id: "b", text: "none" }], "ONE")
  assert.deepEqual(found.map(({ message, at }) => [message, at]), [["a", 0], ["a", 1], ["b", 0]])
  assert.equal(found[2]!.snippet.before, "n")
  assert.equal(findIn([{ id: "a", text: "x".repeat(5_000) }], "x").length, MAX_MATCHES)
  assert.deepEqual(findIn([{ id: "a", text: "İİ x" }], "x")[0]!.snippet.match, "x", "letters that grow in lower case")
})

test("a palette prefers beginnings and whole words to scattered letters", () => {
  const names = ["The settings", "Set key", "Overset", "s e t", "Nothing"]
  const sorted = names.filter((name) => rank(name, "set") > 0).sort((left, right) => rank(right, "set") - rank(left, "set"))
  assert.deepEqual(sorted, ["Set key", "The settings", "Overset", "s e t"])
})

test("totals add what was told, and what was not told stays unknown", () => {
  const tokens = { input: 1, output: 2, reasoning: 3, cache: { read: 4, write: 5 } }
  assert.deepEqual(add([{ tokens, cost: 1 }, {}, { tokens }]), { tokens: { input: 2, output: 4, reasoning: 6, cache: { read: 8, write: 10 } }, cost: 1 })
  assert.deepEqual(add([{}, {}]), { tokens: undefined, cost: undefined })
  assert.equal(contextOf(tokens), 10)
  assert.deepEqual([0.5, 0.6, 0.8, 0.9].map(level), ["low", "raised", "high", "full"])
  assert.deepEqual(totals(createWorld(), "none").session, { tokens: undefined, cost: undefined })
})

test("recorded frames are bounded, and large parts are kept without their text", () => {
  const recorder = new Recorder()
  const frame = (type: string, properties: unknown) => ({ event: { type, properties } })
  recorder.add(Array.from({ length: MAX_FRAMES + 5 }, () => frame("server.heartbeat", {})), 0)
  recorder.add([frame("message.part.updated", { part: { sessionID: "s", text: "x".repeat(100_000) } })], 1)
  assert.equal(recorder.list().length, MAX_FRAMES)
  const [part] = recorder.list({ session: "s", type: "PART" })
  assert.deepEqual(part!.frame.event.properties, { part: { sessionID: "s", characters: 100_000 } })
  assert.equal(sessionOf(frame("session.updated", { info: { id: "ses" } })), "ses")
})

test("the overview shows active sessions first, and needs lists requests by age", () => {
  const world = createWorld()
  const session = (id: string, updated: number, directory = "/a") => ({ id, title: id, directory, time: { created: 0, updated } })
  fold(world, { kind: "sessions", began: 0, sessions: [session("one", 1), session("two", 2, "/b"), session("three", 3)] })
  const say = (type: string, properties: unknown) => fold(world, { kind: "frame", event: { type, properties } })
  say("session.status", { sessionID: "one", status: { type: "busy" } })
  say("message.updated", { info: { role: "assistant", id: "m", sessionID: "one", parentID: "p", time: { created: 1 } } })
  say("message.part.updated", { part: { id: "p1", sessionID: "one", messageID: "m", type: "text", text: "first\nlast line", time: { start: 1 } } })
  assert.deepEqual(latest(world, "one"), { text: "last line" })
  const state = { status: "running", title: "npm test", time: { start: 5 } }
  say("message.part.updated", { part: { id: "p2", sessionID: "one", messageID: "m", type: "tool", tool: "bash", state } })
  assert.deepEqual(latest(world, "one"), { tool: "bash", since: 5, text: "npm test" })
  say("question.asked", { id: "q2", sessionID: "two", questions: [] })
  say("question.asked", { id: "q1", sessionID: "one", questions: [] })
  assert.deepEqual(groups(tiles(world).shown, "state").map(({ key, tiles: own }) => [key, own.map(({ info }) => info.id)]), [
    ["needs", ["two", "one"]],
    ["idle", ["three"]],
  ])
  assert.deepEqual(groups(tiles(world).shown, "project").map(({ key }) => key), ["/b", "/a"])
  assert.deepEqual(tiles(world, "/b").shown.map(({ info }) => info.id), ["two"])
  assert.deepEqual(needs(world).requests.map(({ root }) => root), ["two", "one"])
})

test("the context of the last step stays until the next one tells its own", () => {
  const world = createWorld()
  const tokens = (input: number) => ({ input, output: 1, reasoning: 0, cache: { read: 0, write: 0 } })
  const message = (id: string, at: number, role: "user" | "assistant", input?: number) =>
    fold(world, { kind: "frame", event: { type: "message.updated", properties: { info: { id, sessionID: "s", role, time: { created: at }, tokens: input === undefined ? undefined : tokens(input) } } } })
  fold(world, { kind: "show", session: "s" })
  assert.equal(contextIn(world, "s"), undefined)
  message("m1", 1, "user")
  message("m2", 2, "assistant", 500)
  assert.equal(contextIn(world, "s"), 500)
  message("m3", 3, "user")
  assert.equal(contextIn(world, "s"), 500, "the next turn has no step yet")
  message("m4", 4, "assistant", 0)
  assert.equal(contextIn(world, "s"), 500, "a step that has begun tells nothing")
  message("m4", 4, "assistant", 700)
  assert.equal(contextIn(world, "s"), 700)
})
