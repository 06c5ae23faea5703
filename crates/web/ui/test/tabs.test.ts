// Tabs of one browser: one of them reads the stream, whatever happens to the others.

import assert from "node:assert/strict"
import { test } from "node:test"
import { type Note, SILENT_HOLDER_MS, Tabs } from "../src/core/tabs.ts"
import { Clock, rest } from "./clock.ts"

// The locks and the channel of a browser.
class Browser {
  clock = new Clock()
  tabs = new Map<string, { tabs: Tabs; heard: Note[]; isReading: boolean; isFrozen: boolean }>()
  #holder: { reject: (error: Error) => void; done: Promise<void> } | null = null
  #queue: (() => void)[] = []

  async #lock(steal: boolean, held: () => Promise<void>) {
    if (steal) this.#holder?.reject(new Error("stolen"))
    else if (this.#holder) await new Promise<void>((turn) => this.#queue.push(turn))
    let mine!: { reject: (error: Error) => void; done: Promise<void> }
    const stolen = new Promise<void>((_, reject) => (mine = { reject, done: Promise.resolve() }))
    this.#holder = mine
    try {
      await Promise.race([held(), stolen])
    } finally {
      if (this.#holder === mine) {
        this.#holder = null
        this.#queue.shift()?.()
      }
    }
  }

  open(id: string) {
    const heard: Note[] = []
    const entry = { heard, isReading: false, isFrozen: false } as unknown as NonNullable<ReturnType<typeof this.tabs.get>>
    entry.tabs = new Tabs(
      {
        id,
        lock: (steal, held) => this.#lock(steal, held),
        post: (note) => {
          for (const [other, { tabs, isFrozen }] of this.tabs) if (other !== id && !isFrozen) tabs.hear(note)
        },
        later: this.clock.later,
        isVisible: () => true,
      },
      {
        hold: () => {
          entry.isReading = true
          return { stop: () => (entry.isReading = false) }
        },
        follow: (note) => heard.push(note),
        statement: () => ({ cursor: 5, frames: [], phase: { kind: "live" } }),
      },
    )
    this.tabs.set(id, entry)
    entry.tabs.start()
    return entry
  }

  close(id: string) {
    this.tabs.get(id)?.tabs.close()
    this.tabs.delete(id)
  }

  get readers() {
    return [...this.tabs].filter(([, tab]) => tab.isReading).map(([id]) => id)
  }
}

const beat: Note = { kind: "batch", frames: [] }

test("one tab reads, and the others follow its frames and its statement", async () => {
  const browser = new Browser()
  const one = browser.open("one")
  await rest()
  const [two, three] = [browser.open("two"), browser.open("three")]
  await rest()
  assert.deepEqual(browser.readers, ["one"])
  one.tabs.share(beat)
  two.tabs.share(beat)
  for (const { heard } of [two, three]) assert.deepEqual(heard.map(({ kind }) => kind), ["statement", "batch"])
  assert.deepEqual(one.heard, [])
})

test("when the reader closes, exactly one other takes over", async () => {
  const browser = new Browser()
  for (const id of ["one", "two", "three"]) browser.open(id)
  await rest()
  for (const expected of ["two", "three"]) {
    browser.close(browser.readers[0]!)
    await rest()
    assert.deepEqual(browser.readers, [expected])
  }
})

test("a frozen reader is replaced, and becomes a follower when it thaws", async () => {
  const browser = new Browser()
  const one = browser.open("one")
  await rest()
  const two = browser.open("two")
  await rest()
  for (let beats = 0; beats < 4; beats++) {
    one.tabs.share(beat)
    await browser.clock.pass(SILENT_HOLDER_MS - 1_000)
  }
  assert.deepEqual(browser.readers, ["one"], "heartbeats keep it")
  await browser.clock.pass(SILENT_HOLDER_MS)
  assert.deepEqual(browser.readers, ["two"])
  assert.equal(one.tabs.isHolder, false)
  two.tabs.share(beat)
  assert.equal(one.heard.at(-1)?.kind, "batch")
  browser.close("two")
  await rest()
  assert.deepEqual(browser.readers, ["one"])
})
