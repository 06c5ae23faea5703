// The lock among tabs of a browser without Web Locks.

import assert from "node:assert/strict"
import { test } from "node:test"
import { CONTEST_MS, LEASE_MS, Lease } from "../src/core/lease.ts"
import { Clock, rest } from "./clock.ts"

function setUp() {
  const clock = new Clock()
  const tabs = new Map<string, { lease: Lease; isHolder: boolean; isFrozen: boolean; release: () => void }>()
  const open = (id: string) => {
    const post = (note: Parameters<Lease["hear"]>[0]) => {
      if (tabs.get(id)?.isFrozen) return
      for (const [other, tab] of tabs) if (other !== id && !tab.isFrozen) tab.lease.hear(note)
    }
    const tab = { lease: new Lease({ id, post, later: clock.later }), isHolder: false, isFrozen: false, release: () => {} }
    tabs.set(id, tab)
    const hold = () => {
      tab.isHolder = true
      return new Promise<void>((resolve) => (tab.release = resolve))
    }
    const ask = () => tab.lease.lock(false, hold).catch(() => ((tab.isHolder = false), ask()))
    void ask()
    return tab
  }
  const holders = () => [...tabs].filter(([, tab]) => tab.isHolder).map(([id]) => id)
  return { clock, tabs, open, holders }
}

const SOON = LEASE_MS + CONTEST_MS

test("of several tabs that start together one gets the lock, and keeps it", async () => {
  const { clock, open, holders } = setUp()
  for (const id of ["c", "a", "b"]) open(id)
  await clock.pass(CONTEST_MS)
  assert.deepEqual(holders(), ["a"])
  open("0")
  await clock.pass(10 * LEASE_MS)
  assert.deepEqual(holders(), ["a"], "a smaller id does not take the lock from a holder that is alive")
})

test("a tab that closes frees the lock at once, and a dead one after its lease", async () => {
  const { clock, tabs, open, holders } = setUp()
  for (const id of ["a", "b", "c"]) open(id)
  await clock.pass(SOON)
  const first = tabs.get("a")!
  tabs.delete("a")
  first.isHolder = false
  first.release()
  await rest()
  await clock.pass(CONTEST_MS)
  assert.deepEqual(holders(), ["b"])
  tabs.get("b")!.isFrozen = true
  await clock.pass(2 * SOON)
  assert.deepEqual(holders(), ["b", "c"], "the frozen tab does not know yet")
  tabs.get("b")!.isFrozen = false
  await clock.pass(SOON)
  assert.equal(holders().length, 1, "one of two holders gives way")
})
