// The part of a long list of rows of known heights that is on the screen.

// Offsets of the rows; the last one is the height of the list.
export function offsets<T>(rows: T[], height: (row: T) => number): Float64Array {
  const found = new Float64Array(rows.length + 1)
  rows.forEach((row, at) => (found[at + 1] = found[at]! + height(row)))
  return found
}

// Index of the row at a position.
export function rowAt(tops: Float64Array, position: number): number {
  let [low, high] = [0, Math.max(0, tops.length - 2)]
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (tops[middle]! <= position) low = middle
    else high = middle - 1
  }
  return low
}

// First and last row of a view with some rows around it.
export function visible(tops: Float64Array, top: number, height: number, around: number): [number, number] {
  const count = tops.length - 1
  const first = Math.max(0, rowAt(tops, top) - around)
  const last = Math.min(count, rowAt(tops, top + height) + 1 + around)
  return [first, last]
}
