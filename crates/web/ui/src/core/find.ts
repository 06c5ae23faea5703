// Words in a session's messages, and names in a palette.

import type { Part } from "./wire.ts"

export interface Match {
  message: string
  // Position among the matches of the message.
  at: number
  snippet: { before: string; match: string; after: string }
}

// The most matches of a search; the screen tells when there are more.
export const MAX_MATCHES = 1_000
const AROUND = 40

// The text of a message that a reader can see.
export function textOf(parts: Part[]): string {
  return parts
    .filter((part) => !part.synthetic && !part.ignored)
    .map((part) => (part.type === "text" || part.type === "reasoning" ? (part.text ?? "") : (part.state?.title ?? "")))
    .filter(Boolean)
    .join("\n")
}

// Matches in the order of the messages. Case does not matter.
export function findIn(messages: { id: string; text: string }[], query: string): Match[] {
  const wanted = query.toLowerCase()
  const found: Match[] = []
  if (wanted === "") return found
  for (const { id, text } of messages) {
    // A character whose lower case is longer would shift the positions.
    const lower = text.toLowerCase()
    const source = lower.length === text.length ? text : lower
    let from = 0
    for (let at = 0; found.length < MAX_MATCHES; at++) {
      const index = lower.indexOf(wanted, from)
      if (index < 0) break
      from = index + wanted.length
      const snippet = {
        before: source.slice(Math.max(0, index - AROUND), index),
        match: source.slice(index, from),
        after: source.slice(from, from + AROUND),
      }
      found.push({ message: id, at, snippet })
    }
  }
  return found
}

// Rates a name against the typed text; 0 means no match. Whole words and beginnings count more than scattered letters.
export function rank(name: string, typed: string): number {
  const [text, wanted] = [name.toLowerCase(), typed.toLowerCase().trim()]
  if (wanted === "") return 1
  const at = text.indexOf(wanted)
  if (at === 0) return 1_000 - text.length / 1_000
  if (at > 0) return (/[\s/._-]/.test(text[at - 1]!) ? 800 : 600) - text.length / 1_000
  let [position, gaps] = [-1, 0]
  for (const char of wanted.replace(/\s+/g, "")) {
    const next = text.indexOf(char, position + 1)
    if (next < 0) return 0
    if (position >= 0) gaps += next - position - 1
    position = next
  }
  return Math.max(1, 400 - gaps * 5 - text.length / 1_000)
}
