// Comments on lines of a diff, and the prompt that they become.

import type { FilePatch, Line } from "./patch.ts"

export interface Comment {
  id: string
  file: string
  // The side of the diff that the lines are on.
  side: "old" | "now"
  from: number
  to: number
  // The lines that the comment was written for. It never moves to other lines.
  lines: string[]
  text: string
  time: number
}

// The most comments of a session.
export const MAX_COMMENTS = 200
// The most lines of an excerpt in the prompt.
const MAX_EXCERPT = 12

// The line of a side of a diff by its number.
export function lineAt(patch: FilePatch, side: Comment["side"], number: number): Line | undefined {
  for (const hunk of patch.hunks) {
    const found = hunk.lines.find((line) => line[side] === number)
    if (found) return found
  }
  return undefined
}

// Compares a comment with the diff that is shown now.
export function place(comment: Comment, patch: FilePatch | undefined): "here" | "changed" | "absent" {
  if (!patch) return "absent"
  const lines = Array.from({ length: comment.to - comment.from + 1 }, (_, at) => lineAt(patch, comment.side, comment.from + at))
  if (lines.every((line) => line === undefined)) return "absent"
  return lines.every((line, at) => line?.text === comment.lines[at]) ? "here" : "changed"
}

// Lines of the selection from `from` to `to`, as far as the diff shows them.
export function excerpt(patch: FilePatch, side: Comment["side"], from: number, to: number): string[] {
  return Array.from({ length: to - from + 1 }, (_, at) => lineAt(patch, side, from + at)?.text ?? "")
}

export interface Wording {
  intro: string
  removed: string
}

// A fence that the excerpt itself does not contain.
function fence(lines: string[]): string {
  const longest = Math.max(2, ...lines.flatMap((line) => [...line.matchAll(/`+/g)].map((match) => match[0].length)))
  return "`".repeat(longest + 1)
}

// One prompt with every comment: file, lines, excerpt, text.
export function reviewPrompt(comments: Comment[], wording: Wording): string {
  const sorted = [...comments].sort((left, right) => (left.file < right.file ? -1 : left.file > right.file ? 1 : left.from - right.from))
  const blocks = sorted.map((comment) => {
    const range = comment.from === comment.to ? `${comment.from}` : `${comment.from}-${comment.to}`
    const note = comment.side === "old" ? ` (${wording.removed})` : ""
    const shown = comment.lines.slice(0, MAX_EXCERPT)
    const mark = fence(shown)
    const cut = comment.lines.length > shown.length ? ["…"] : []
    return [`**${comment.file}:${range}**${note}`, mark, ...shown, ...cut, mark, comment.text.trim()].join("\n")
  })
  return [wording.intro, ...blocks].join("\n\n")
}

// A number that changes with a text, to notice a new version of a patch.
export function fingerprint(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return hash >>> 0
}
