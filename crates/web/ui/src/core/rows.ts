// Heights and positions of the rows of a long list, most of which do not exist on the screen.
//
// A row that has not been measured counts with an estimate. Offsets are sums, computed from the first changed row on, so
// a row that grows at the end of the list costs nothing for the rows before it.

export class Rows {
  #keys: string[] = []
  #index = new Map<string, number>()
  #heights = new Map<string, number>()
  #offsets: number[] = [0]
  // Rows before this one have a valid offset.
  #valid = 0
  #estimate: number

  constructor(estimate: number) {
    this.#estimate = estimate
  }

  get count() {
    return this.#keys.length
  }

  get total() {
    return this.offset(this.#keys.length)
  }

  key(at: number): string | undefined {
    return this.#keys[at]
  }

  index(key: string): number {
    return this.#index.get(key) ?? -1
  }

  slice(start: number, end: number): string[] {
    return this.#keys.slice(start, end)
  }

  set(keys: string[]) {
    let same = 0
    while (same < keys.length && keys[same] === this.#keys[same]) same++
    for (const key of this.#keys.slice(same)) this.#index.delete(key)
    for (let at = same; at < keys.length; at++) this.#index.set(keys[at]!, at)
    this.#keys = keys
    this.#valid = Math.min(this.#valid, same)
    for (const key of this.#heights.size > 2 * keys.length + 100 ? [...this.#heights.keys()] : []) {
      if (!this.#index.has(key)) this.#heights.delete(key)
    }
  }

  // Notes the height of a row. Returns true if it has changed.
  measure(key: string, height: number): boolean {
    const at = this.#index.get(key)
    if (at === undefined || this.#heights.get(key) === height) return false
    this.#heights.set(key, height)
    this.#valid = Math.min(this.#valid, at)
    return true
  }

  // The distance of a row from the beginning of the list.
  offset(at: number): number {
    for (; this.#valid < at; this.#valid++) {
      const height = this.#heights.get(this.#keys[this.#valid]!) ?? this.#estimate
      this.#offsets[this.#valid + 1] = this.#offsets[this.#valid]! + height
    }
    return this.#offsets[at] ?? 0
  }

  // The row at a position; the first or last one beyond the ends.
  at(position: number): number {
    let [low, high] = [0, Math.max(0, this.#keys.length - 1)]
    this.offset(this.#keys.length)
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.#offsets[middle]! <= position) low = middle
      else high = middle - 1
    }
    return low
  }

  // The rows that intersect a range of positions, as the first and the one after the last.
  range(from: number, to: number): [number, number] {
    if (this.#keys.length === 0) return [0, 0]
    return [this.at(from), this.at(to) + 1]
  }
}
