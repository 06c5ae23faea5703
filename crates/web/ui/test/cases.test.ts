// The cases that the Rust client's `SessionView` is tested with, in the page's fold.

import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { test } from "node:test"
import { fold } from "../src/core/fold.ts"
import { viewOf } from "../src/core/state.ts"
import type { Status, WireEvent } from "../src/core/wire.ts"
import { createWorld } from "../src/core/world.ts"

const SESSION = "ses_parent"

interface Step {
  event?: WireEvent
  open?: boolean
  resync?: { statuses: Record<string, Status>; requests: WireEvent[] }
  expect?: Record<string, unknown>
}

const file = new URL("../../../client/src/view/cases.json", import.meta.url)
const cases: { name: string; steps: Step[] }[] = JSON.parse(readFileSync(file, "utf8"))

for (const { name, steps } of cases) {
  test(name, () => {
    const world = createWorld()
    fold(world, { kind: "opened", resumed: false })
    fold(world, { kind: "settled" })
    steps.forEach((step, index) => {
      if (step.event) fold(world, { kind: "frame", event: step.event })
      if (step.open !== undefined) {
        const session = step.open ? SESSION : null
        fold(world, { kind: "show", session })
        fold(world, { kind: "watch", session })
      }
      if (step.resync) {
        fold(world, { kind: "frame", event: { type: "server.resync", properties: {} } })
        for (const [sessionID, status] of Object.entries(step.resync.statuses)) {
          fold(world, { kind: "frame", event: { type: "session.status", properties: { sessionID, status } } })
        }
        for (const request of step.resync.requests) fold(world, { kind: "frame", event: request })
        fold(world, { kind: "settled" })
      }
      const view: Record<string, unknown> = viewOf(world, SESSION)
      for (const [field, expected] of Object.entries(step.expect ?? {})) {
        assert.deepEqual(view[field], expected, `${field} after step ${index + 1}`)
      }
    })
    assert.equal(world.counts.unreadable, 0)
  })
}
