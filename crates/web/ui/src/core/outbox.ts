// Prompts on their way to the server, in order for each session, until the server has accepted them.
//
// A prompt keeps its id over every attempt, and the server accepts an id once. So a prompt may be sent again whenever
// its fate is unclear: after a lost answer, a crash of the page, or by two tabs at the same time.

export interface Letter {
  id: string
  sessionID: string
  created: number
  // The server's reason for refusing it; the user decides what happens next.
  refused?: string
}

export type Outcome = { kind: "accepted" } | { kind: "unreachable" } | { kind: "refused"; reason: string }

export interface OutboxPorts<L extends Letter> {
  post(letter: L): Promise<Outcome>
  // The server has the prompt; `isRepeated` if an earlier attempt may have brought it.
  accepted(letter: L, isRepeated: boolean): void
  // The server cannot be reached; the prompt waits here.
  held(letter: L): void
  refused(letter: L, reason: string): void
  later(ms: number, run: () => void): () => void
}

// Time between attempts while the stream is open but calls fail.
export const RETRY_MS = [1_000, 2_000, 5_000]
// The most prompts that wait here for one session.
export const MAX_LETTERS = 100

interface Lane<L> {
  letters: L[]
  isPosting: boolean
  attempt: number
  cancel: () => void
}

export class Outbox<L extends Letter> {
  #ports: OutboxPorts<L>
  #lanes = new Map<string, Lane<L>>()
  // Prompts that were posted before, by this page or by an earlier one.
  #tried = new Set<string>()

  constructor(ports: OutboxPorts<L>) {
    this.#ports = ports
  }

  get size() {
    let size = 0
    for (const lane of this.#lanes.values()) size += lane.letters.length
    return size
  }

  has(id: string) {
    return [...this.#lanes.values()].some((lane) => lane.letters.some((letter) => letter.id === id))
  }

  ids(): string[] {
    return [...this.#lanes.values()].flatMap((lane) => lane.letters.map((letter) => letter.id))
  }

  // Sends a prompt after those of its session that wait already. Returns false if too many wait.
  add(letter: L, isRestored = false): boolean {
    if (this.has(letter.id)) return true
    const lane = this.#lanes.get(letter.sessionID) ?? { letters: [], isPosting: false, attempt: 0, cancel: () => {} }
    if (lane.letters.length >= MAX_LETTERS) return false
    this.#lanes.set(letter.sessionID, lane)
    if (isRestored) this.#tried.add(letter.id)
    // A prompt of an earlier page goes first.
    const at = lane.letters.findIndex((other, index) => other.created > letter.created && !(index === 0 && lane.isPosting))
    lane.letters.splice(at < 0 ? lane.letters.length : at, 0, letter)
    void this.#pump(lane)
    return true
  }

  // The connection is back: everything that waits is sent now.
  wake() {
    for (const lane of this.#lanes.values()) {
      lane.cancel()
      lane.attempt = 0
      void this.#pump(lane)
    }
  }

  // The prompt is not needed any more: the stream has shown it, or the user has discarded it.
  remove(id: string) {
    for (const [session, lane] of this.#lanes) {
      lane.letters = lane.letters.filter((letter) => letter.id !== id)
      if (lane.letters.length > 0 || lane.isPosting) continue
      lane.cancel()
      this.#lanes.delete(session)
    }
    this.#tried.delete(id)
  }

  async #pump(lane: Lane<L>) {
    if (lane.isPosting) return
    lane.cancel()
    for (let letter = lane.letters[0]; letter; letter = lane.letters[0]) {
      const isRepeated = this.#tried.has(letter.id)
      this.#tried.add(letter.id)
      lane.isPosting = true
      const outcome = await this.#ports.post(letter)
      lane.isPosting = false
      // The stream may have shown the prompt in the meantime.
      const isKnown = lane.letters.includes(letter)
      if (outcome.kind === "unreachable" && isKnown) return this.#hold(lane)
      lane.attempt = 0
      this.remove(letter.id)
      if (!isKnown) continue
      if (outcome.kind === "refused") this.#ports.refused(letter, outcome.reason)
      else this.#ports.accepted(letter, isRepeated)
    }
  }

  #hold(lane: Lane<L>) {
    for (const letter of lane.letters) this.#ports.held(letter)
    const ms = RETRY_MS[Math.min(lane.attempt, RETRY_MS.length - 1)]!
    lane.attempt++
    lane.cancel = this.#ports.later(ms, () => void this.#pump(lane))
  }
}
