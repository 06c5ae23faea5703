// The choice of several sessions in the list.

// Adds the rows from the anchor to the target, in the order of the list; without an anchor in the list, the target alone.
// A target that is the only choice is removed again.
export function extend(order: string[], chosen: string[], anchor: string | undefined, target: string): string[] {
  const [from, to] = [anchor === undefined ? -1 : order.indexOf(anchor), order.indexOf(target)]
  if (to < 0) return chosen
  if (chosen.includes(target)) return chosen.filter((id) => id !== target)
  const range = from < 0 ? [target] : order.slice(Math.min(from, to), Math.max(from, to) + 1)
  return [...chosen, ...range.filter((id) => !chosen.includes(id))]
}

export const MIN_WIDTH = 220
export const MAX_WIDTH = 420

// The width of the list, in pixels.
export const fitWidth = (width: number) => Math.round(Math.min(MAX_WIDTH, Math.max(MIN_WIDTH, width)))
