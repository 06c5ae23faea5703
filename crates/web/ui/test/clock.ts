// Timers that a test moves by hand.

export class Clock {
  now = 0
  #timers: { at: number; run: () => void }[] = []

  later = (ms: number, run: () => void) => {
    const timer = { at: this.now + ms, run }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer)
    }
  }

  get waiting() {
    return this.#timers.length
  }

  // Runs every timer that is due within this time, in order, and lets promises settle in between.
  async pass(ms: number) {
    const end = this.now + ms
    for (;;) {
      await rest()
      const next = this.#timers.filter(({ at }) => at <= end).sort((left, right) => left.at - right.at)[0]
      if (!next) break
      this.#timers = this.#timers.filter((other) => other !== next)
      this.now = next.at
      next.run()
    }
    this.now = end
  }
}

// Lets everything that needs no timer happen.
export async function rest() {
  for (let round = 0; round < 20; round++) await new Promise((resolve) => setImmediate(resolve))
}
