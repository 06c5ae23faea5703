// Recordings of OpenCode in the page's fold: every event is read, and every turn ends.

import assert from "node:assert/strict"
import { readFileSync, readdirSync } from "node:fs"
import { test } from "node:test"
import { fold } from "../src/core/fold.ts"
import { statusOf } from "../src/core/state.ts"
import { createWorld } from "../src/core/world.ts"

const folder = new URL("../../../protocol/tests/fixtures/opencode/", import.meta.url)
// OpenCode never ends these turns: it was killed, or the session was deleted while it worked.
const UNENDED = /^(kill_|delete_busy)/

for (const name of readdirSync(folder).filter((file) => file.endsWith(".jsonl"))) {
  test(`the recording ${name} is read to its end`, () => {
    const world = createWorld()
    const lines = readFileSync(new URL(name, folder), "utf8").trim().split("\n")
    const texts = new Map<string, string>()
    fold(world, { kind: "opened", resumed: false })
    fold(world, { kind: "settled" })
    for (const line of lines) {
      const { k, d, sse_open: opened } = JSON.parse(line)
      if (opened) fold(world, { kind: "opened", resumed: false })
      if (opened) fold(world, { kind: "settled" })
      if (k !== "event") continue
      const sessionID = d.properties?.info?.id ?? d.properties?.sessionID
      if (d.type === "session.created" && !world.visible) fold(world, { kind: "show", session: sessionID })
      fold(world, { kind: "frame", event: structuredClone(d) })
      const part = d.properties?.part
      if (d.type === "message.part.updated" && part?.type === "text") texts.set(part.id, part.text)
    }
    assert.equal(world.counts.unreadable, 0)
    if (!UNENDED.test(name)) {
      for (const session of world.sessions.keys()) assert.equal(statusOf(world, session).type, "idle", session)
    }
    // Deltas and the final text of a part agree.
    for (const { part } of [...world.windows.values()].flatMap((it) => it.entries).flatMap((it) => it.parts)) {
      const said = texts.get(part.id)
      if (part.type === "text" && said !== undefined && part.time?.end) assert.equal(part.text, said)
    }
  })
}
