// The connection to the event stream: reads frames, notices silence, and connects again with the cursor.

import { Decoder, join } from "./sse.ts"
import type { Frame } from "./wire.ts"
import type { Phase } from "./world.ts"

// Heartbeats come every 10 s.
export const SILENCE_MS = 25_000
// Time without a frame after which the opening statement counts as complete, and the longest time it may take.
export const SETTLE_MS = 100
export const LONGEST_SETTLE_MS = 1_000
export const BACKOFF_MS = [250, 500, 1_000, 2_000, 5_000]

// The outside, replaceable in tests.
export interface Ports {
  open(cursor: number | null, signal: AbortSignal): Promise<Response>
  now(): number
  random(): number
  later(ms: number, run: () => void): () => void
}

export interface Sink {
  opened(resumed: boolean): void
  frames(frames: Frame[]): void
  settled(): void
  unreadable(count: number): void
  phase(phase: Phase): void
  // The position from which the next connection resumes.
  cursor(): number | null
}

// Text is appended only after the statement has introduced its part.
const endsStatement = ({ event }: Frame) => event.type === "message.part.delta" || event.type === "server.ready"

export class Link {
  #ports: Ports
  #sink: Sink
  #attempt = 0
  #lost: number | null = null
  #stop: AbortController | null = null
  #cancelWait: (() => void) | null = null
  #cancelSettle: (() => void) | null = null
  #isRunning = false

  constructor(ports: Ports, sink: Sink) {
    this.#ports = ports
    this.#sink = sink
  }

  start() {
    if (this.#isRunning) return
    this.#isRunning = true
    void this.#connect()
  }

  close() {
    this.#isRunning = false
    this.#cancelWait?.()
    this.#cancelSettle?.()
    this.#stop?.abort()
  }

  // Connects now if the link waits: the network is back, the page is visible again, or the user asks.
  hurry() {
    if (!this.#isRunning || !this.#cancelWait) return
    this.#cancelWait()
    this.#cancelWait = null
    void this.#connect()
  }

  async #connect() {
    const stop = new AbortController()
    this.#stop = stop
    let cancelWatch = () => {}
    const watch = () => {
      cancelWatch()
      cancelWatch = this.#ports.later(SILENCE_MS, () => stop.abort())
    }
    let isFinal = false
    try {
      watch()
      const cursor = this.#sink.cursor()
      const response = await this.#ports.open(cursor, stop.signal)
      if (!response.ok) isFinal = await this.#refused(response)
      else await this.#read(response, cursor !== null, watch)
    } catch {
      // A broken connection is the ordinary case; the loop below connects again.
    } finally {
      cancelWatch()
      this.#cancelSettle?.()
    }
    if (this.#isRunning && this.#stop === stop && !isFinal) this.#wait()
  }

  async #read(response: Response, resumed: boolean, watch: () => void) {
    const decoder = new Decoder()
    const reader = response.body!.getReader()
    this.#sink.opened(resumed)
    this.#sink.phase({ kind: "live" })
    this.#attempt = 0
    this.#lost = null
    let cancelLongest = () => {}
    const open = () => {
      isOpening = true
      cancelLongest = this.#ports.later(LONGEST_SETTLE_MS, settle)
    }
    const settle = () => {
      if (!isOpening) return
      isOpening = false
      cancelLongest()
      this.#cancelSettle?.()
      this.#sink.settled()
    }
    let isOpening = false
    open()
    try {
      for (;;) {
        const { done, value } = await reader.read()
        if (done || !this.#isRunning) return
        watch()
        const frames = join(decoder.push(value))
        if (decoder.unreadable > 0) this.#sink.unreadable(decoder.unreadable)
        decoder.unreadable = 0
        if (frames.length === 0) continue
        const end = isOpening ? frames.findIndex(endsStatement) : -1
        if (end >= 0) {
          if (end > 0) this.#sink.frames(frames.slice(0, end))
          settle()
        }
        this.#sink.frames(frames.slice(Math.max(0, end)))
        if (frames.some((frame) => frame.event.type === "server.resync") && !isOpening) open()
        if (!isOpening) continue
        this.#cancelSettle?.()
        this.#cancelSettle = this.#ports.later(SETTLE_MS, settle)
      }
    } finally {
      cancelLongest()
    }
  }

  // Returns true if trying again would not help.
  async #refused(response: Response): Promise<boolean> {
    if (response.status === 401) {
      this.#sink.phase({ kind: "signin" })
      this.#isRunning = false
      return true
    }
    if (response.status !== 403) return false
    const body = await response.json().catch(() => ({}))
    this.#sink.phase({ kind: "refused", message: body?.message ?? "The server refuses this page." })
    this.#isRunning = false
    return true
  }

  #wait() {
    const now = this.#ports.now()
    this.#lost ??= now
    const base = BACKOFF_MS[Math.min(this.#attempt, BACKOFF_MS.length - 1)]!
    this.#attempt++
    const ms = base * (0.75 + this.#ports.random() / 2)
    this.#sink.phase({ kind: "waiting", until: now + ms, since: this.#lost })
    this.#cancelWait = this.#ports.later(ms, () => {
      this.#cancelWait = null
      void this.#connect()
    })
  }
}
