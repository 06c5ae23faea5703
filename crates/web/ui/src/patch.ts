// Rows of a unified diff, for the cards of tools and requests.

import { headerOf, parsePatch } from "./core/patch.ts"

export interface Row {
  kind: "add" | "remove" | "same" | "hunk" | "file"
  text: string
  old?: number
  now?: number
}

// The most rows that are shown before "show all".
export const MAX_ROWS = 400

export function rows(patch: string): Row[] {
  return parsePatch(patch).flatMap(({ file, hunks }): Row[] => [
    ...(file ? [{ kind: "file" as const, text: file }] : []),
    ...hunks.flatMap((hunk): Row[] => [
      { kind: "hunk", text: headerOf(hunk) },
      ...hunk.lines,
    ]),
  ])
}
