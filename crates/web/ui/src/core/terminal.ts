// The rules of a terminal: the server's mark between old and new output, addresses in a line, and pastes that need a
// question.

// The server's frame after the past output: a zero byte, then `{"cursor": …}`. Returns the cursor.
export function readMark(data: ArrayBuffer): number | undefined {
  const bytes = new Uint8Array(data)
  if (bytes[0] !== 0) return undefined
  try {
    const { cursor } = JSON.parse(new TextDecoder().decode(bytes.subarray(1)))
    return typeof cursor === "number" ? cursor : undefined
  } catch {
    return undefined
  }
}

// A shell runs every complete line of a paste at once, before the user has read it.
export const needsQuestion = (pasted: string) => /[\r\n]/.test(pasted)

export interface Found {
  // Position of the first character, and of the one after the last.
  from: number
  to: number
  address: string
}

const ADDRESS = /\b(?:https?:\/\/|mailto:)[^\s"'<>`{}|\\^]+/gi
// Characters that end a sentence rather than an address.
const AFTER = /[.,;:!?]+$/
// The most addresses of one line that become links.
const MAX_LINKS = 50

// Addresses in a line of output. A closing bracket belongs to the address only if the address opens it.
export function findAddresses(line: string): Found[] {
  return [...line.matchAll(ADDRESS)].slice(0, MAX_LINKS).map((match) => {
    let address = match[0].replace(AFTER, "")
    for (const [open, close] of ["()", "[]"] as const) {
      if (address.endsWith(close!) && !address.includes(open!)) address = address.slice(0, -1).replace(AFTER, "")
    }
    return { from: match.index, to: match.index + address.length, address }
  })
}

const LONGEST_MS = 5_000

// The wait before the next attempt to connect, by the number of failed ones.
export const retryDelay = (failures: number) => Math.min(LONGEST_MS, 250 * 2 ** failures)
