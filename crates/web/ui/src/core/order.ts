// The order of a list that its user looks at: rows keep their places while sessions work, whatever the activity is.

export class StableOrder {
  #ids: string[] = []

  // Forgets the places, so that the next order is the given one.
  reset() {
    this.#ids = []
  }

  // Returns the ids in the places that they had before. New ids before all others come first, those after all others
  // last, and any other before the id that it precedes.
  arrange(sorted: string[]): string[] {
    const wanted = new Set(sorted)
    const kept = this.#ids.filter((id) => wanted.has(id))
    const known = new Set(kept)
    const before = new Map<string, string[]>()
    const first: string[] = []
    let fresh: string[] = []
    let hasKnown = false
    for (const id of sorted) {
      if (!known.has(id)) {
        fresh.push(id)
        continue
      }
      if (hasKnown) before.set(id, fresh)
      else first.push(...fresh)
      hasKnown = true
      fresh = []
    }
    this.#ids = [...first, ...kept.flatMap((id) => [...(before.get(id) ?? []), id]), ...fresh]
    return this.#ids
  }
}
