// A lock among tabs for browsers without Web Locks, which exist only for https and localhost.
//
// The holder repeats that it is alive, and says so to every tab that claims the lock. When it has not been heard for a
// while, the tab with the smallest id among those that claim the lock gets it. Two holders can exist for a moment; the one
// with the larger id gives way.

// Interval at which the holder repeats that it is alive.
export const ALIVE_MS = 500
// Silence after which the lock is free.
export const LEASE_MS = 2_000
// Time in which a claim can be contested.
export const CONTEST_MS = 200

export type LeaseNote = { lease: "alive" | "claim" | "free"; from: string }

export interface LeasePorts {
  id: string
  post(note: LeaseNote): void
  later(ms: number, run: () => void): () => void
}

export class Lease {
  #ports: LeasePorts
  #wait: { grant: () => void } | null = null
  #cancel = () => {}
  #isClaiming = false
  // True if the holder is considered frozen.
  #isStealing = false
  #lose: ((error: Error) => void) | null = null

  constructor(ports: LeasePorts) {
    this.#ports = ports
  }

  // Runs `held` while this tab has the lock. Rejects if another tab has taken it.
  async lock(steal: boolean, held: () => Promise<void>): Promise<void> {
    if (this.#lose || this.#wait) return new Promise(() => {})
    await new Promise<void>((grant) => {
      this.#wait = { grant }
      this.#isStealing = steal
      this.#claim()
    })
    this.#isStealing = false
    this.#wait = null
    const lost = new Promise<void>((_, reject) => (this.#lose = reject))
    this.#beat()
    try {
      await Promise.race([held(), lost])
      this.#ports.post({ lease: "free", from: this.#ports.id })
    } finally {
      this.#cancel()
      this.#lose = null
    }
  }

  hear({ lease, from }: LeaseNote) {
    if (this.#lose) {
      // Of two holders the one with the smaller id stays.
      if (lease === "alive" && from < this.#ports.id) this.#lose(new Error("another tab has the lock"))
      else this.#ports.post({ lease: "alive", from: this.#ports.id })
      return
    }
    if (!this.#wait) return
    if (lease === "free") return this.#claim()
    if (lease === "alive") return this.#isStealing ? undefined : this.#listen()
    if (!this.#isClaiming) return
    if (from < this.#ports.id) this.#listen()
    // A tab that came later has not heard this claim.
    else this.#ports.post({ lease: "claim", from: this.#ports.id })
  }

  #listen() {
    this.#isClaiming = false
    this.#cancel()
    this.#cancel = this.#ports.later(LEASE_MS, () => this.#claim())
  }

  #claim() {
    this.#isClaiming = true
    this.#cancel()
    this.#cancel = this.#ports.later(CONTEST_MS, () => this.#wait?.grant())
    this.#ports.post({ lease: "claim", from: this.#ports.id })
  }

  #beat() {
    this.#ports.post({ lease: "alive", from: this.#ports.id })
    this.#cancel = this.#ports.later(ALIVE_MS, () => this.#lose && this.#beat())
  }
}
