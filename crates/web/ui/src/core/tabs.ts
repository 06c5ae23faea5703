// One event stream for all tabs of a browser: the tab that holds a lock reads it and passes the frames on.
//
// A browser opens at most six connections to one host over plain HTTP, so a stream for each tab would block the
// seventh tab. A tab that takes over connects with its own cursor and misses nothing.

import type { Frame } from "./wire.ts"
import type { Phase } from "./world.ts"

// Heartbeats come every 10 s, so a holder that is silent for longer is frozen.
export const SILENT_HOLDER_MS = 15_000

export type Note =
  | { kind: "batch"; frames: Frame[] }
  | { kind: "opened"; resumed: boolean }
  | { kind: "settled" }
  | { kind: "phase"; phase: Phase }
  // A new tab asks the holder for the state; the holder answers with frames that describe it.
  | { kind: "ask"; from: string }
  | { kind: "statement"; to: string; cursor: number | null; frames: Frame[]; phase: Phase }

export interface TabPorts {
  id: string
  // Runs `held` while this tab holds the lock; resolves or rejects when the lock is lost.
  lock(steal: boolean, held: () => Promise<void>): Promise<void>
  post(note: Note): void
  later(ms: number, run: () => void): () => void
  isVisible(): boolean
}

export interface Tab {
  // This tab reads the stream from now on, and must stop when `stop` is called.
  hold(): { stop(): void }
  // A note of the holder, for a tab that follows.
  follow(note: Note): void
  // The state of this tab as frames.
  statement(): { cursor: number | null; frames: Frame[]; phase: Phase }
}

export class Tabs {
  #ports: TabPorts
  #tab: Tab
  #held: { stop(): void } | null = null
  #release: (() => void) | null = null
  #cancelWatch: (() => void) | null = null
  #isClosed = false

  constructor(ports: TabPorts, tab: Tab) {
    this.#ports = ports
    this.#tab = tab
  }

  get isHolder() {
    return this.#held !== null
  }

  start() {
    this.#queue(false)
    this.#ports.post({ kind: "ask", from: this.#ports.id })
    this.#watch()
  }

  close() {
    this.#isClosed = true
    this.#cancelWatch?.()
    this.#release?.()
  }

  // Passes a note of this tab's stream on to the others.
  share(note: Note) {
    if (this.isHolder) this.#ports.post(note)
  }

  // A note from another tab.
  hear(note: Note) {
    if (note.kind === "ask") {
      if (this.isHolder) this.#ports.post({ kind: "statement", to: note.from, ...this.#tab.statement() })
      return
    }
    // Another tab has the stream: this one has lost it without noticing, for instance while it was frozen.
    if (this.isHolder) return
    this.#watch()
    if (note.kind === "statement" && note.to !== this.#ports.id) return
    this.#tab.follow(note)
  }

  // The tab becomes visible or is used: a frozen holder is replaced at once.
  wake() {
    if (!this.isHolder) this.#watch()
  }

  #watch() {
    this.#cancelWatch?.()
    this.#cancelWatch = this.#ports.later(SILENT_HOLDER_MS, () => {
      if (this.isHolder) return
      if (this.#ports.isVisible()) this.#queue(true)
      else this.#watch()
    })
  }

  #queue(steal: boolean) {
    const held = () =>
      new Promise<void>((resolve) => {
        if (this.#isClosed) return resolve()
        this.#cancelWatch?.()
        this.#release = resolve
        this.#held ??= this.#tab.hold()
      })
    this.#ports.lock(steal, held).then(
      () => this.#lose(false),
      () => this.#lose(true),
    )
  }

  // A stolen lock leaves this tab a follower that waits for its turn.
  #lose(stolen: boolean) {
    this.#held?.stop()
    this.#held = null
    this.#release = null
    if (stolen && !this.#isClosed) {
      this.#queue(false)
      this.#watch()
    }
  }
}
