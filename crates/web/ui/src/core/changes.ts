// The rows of a review: files, hunks, lines and the comments between them.

import { type FilePatch, type Hunk, type Row, parsePatch, partners, splitRows, unifiedRows } from "./patch.ts"
import type { Comment } from "./review.ts"
import type { FileDiff } from "./wire.ts"

// A changed file. Its patch is parsed when its lines are shown for the first time.
export interface Entry {
  file: string
  patch: string | undefined
  additions: number
  deletions: number
  status: string
}

// The most files of a review; the screen tells how many are left out.
export const MAX_FILES = 500
// A file with more changed lines begins folded.
const MAX_OPEN = 500
// Files after this many changed lines begin folded, so that the first one appears at once.
const MAX_FIRST = 3_000
// Rows of a file that are shown at a time.
export const PART_ROWS = 5_000
// Characters of a line that are shown.
export const MAX_LINE = 2_000

export function entries(diffs: FileDiff[]): Entry[] {
  const files = new Map<string, Entry>()
  for (const diff of diffs) {
    const file = diff.file ?? ""
    const known = files.get(file)
    const patch = known?.patch && diff.patch ? `${known.patch}\n${diff.patch}` : (diff.patch ?? known?.patch)
    files.set(file, {
      file,
      patch,
      additions: (known?.additions ?? 0) + (diff.additions ?? 0),
      deletions: (known?.deletions ?? 0) + (diff.deletions ?? 0),
      status: diff.status ?? known?.status ?? "modified",
    })
  }
  return [...files.values()].sort((left, right) => (left.file < right.file ? -1 : 1))
}

const parsed = new WeakMap<Entry, FilePatch>()

// The patch of an entry. Several patches of one file, as those of several turns, become one with all their hunks.
export function patchOf(entry: Entry): FilePatch {
  const known = parsed.get(entry)
  if (known) return known
  const patches = parsePatch(entry.patch ?? "")
  const made: FilePatch = {
    file: entry.file,
    head: patches[0]?.head ?? [],
    hunks: patches.flatMap((patch) => patch.hunks),
    isBinary: patches.some((patch) => patch.isBinary),
  }
  parsed.set(entry, made)
  return made
}

// Cheaper than a parsed patch, which a folded file does not need.
export const hasHunks = (entry: Entry) => /^@@ /m.test(entry.patch ?? "")

// Files that begin folded.
export function foldedAtFirst(all: Entry[]): Set<string> {
  const folded = new Set<string>()
  let lines = 0
  for (const entry of all) {
    const own = entry.additions + entry.deletions
    lines += own
    if (own > MAX_OPEN || (lines > MAX_FIRST && lines > own)) folded.add(entry.file)
  }
  return folded
}

export type Note = "binary" | "large" | "mode" | "more"

export type DiffRow =
  | { kind: "file"; entry: Entry }
  | { kind: "hunk"; entry: Entry; hunk: Hunk }
  | { kind: "line"; entry: Entry; hunk: Hunk; row: Row; other?: string }
  | { kind: "note"; entry: Entry; note: Note }
  | { kind: "comment"; entry: Entry; id: string }
  | { kind: "editor"; entry: Entry }

export interface Layout {
  isSplit: boolean
  ignoresSpace: boolean
  folded: Set<string>
  // Rows that are shown of files that have more than one part.
  parts: Map<string, number>
}

const made = new WeakMap<Entry, { key: string; head: DiffRow; rows: DiffRow[] }>()

// Rows of one file without comments. They keep their identity, so that a comment does not draw them again.
function rowsOf(entry: Entry, layout: Layout): { head: DiffRow; rows: DiffRow[] } {
  const key = `${layout.isSplit} ${layout.ignoresSpace}`
  const known = made.get(entry)
  if (known?.key === key) return known
  const head = known?.head ?? { kind: "file" as const, entry }
  const { hunks, isBinary } = patchOf(entry)
  const rows: DiffRow[] = []
  if (isBinary) rows.push({ kind: "note", entry, note: "binary" })
  else if (entry.patch === undefined) rows.push({ kind: "note", entry, note: "large" })
  else if (hunks.length === 0) rows.push({ kind: "note", entry, note: "mode" })
  for (const hunk of hunks) {
    rows.push({ kind: "hunk", entry, hunk })
    const pairs = partners(hunk)
    const found = layout.isSplit ? splitRows(hunk, layout.ignoresSpace) : unifiedRows(hunk, layout.ignoresSpace)
    for (const row of found) {
      const line = row.now ?? row.old
      const other = line && line.kind !== "same" ? pairs.get(line)?.text : undefined
      rows.push({ kind: "line", entry, hunk, row, other })
    }
  }
  const result = { key, head, rows }
  made.set(entry, result)
  return result
}

const headers = new WeakMap<Entry, DiffRow>()

function headOf(entry: Entry): DiffRow {
  const known = made.get(entry)?.head ?? headers.get(entry) ?? { kind: "file" as const, entry }
  headers.set(entry, known)
  return known
}

const commentRows = new WeakMap<Entry, Map<string, DiffRow>>()

function commentRow(entry: Entry, id: string): DiffRow {
  const known = commentRows.get(entry) ?? new Map<string, DiffRow>()
  commentRows.set(entry, known)
  const row = known.get(id) ?? { kind: "comment" as const, entry, id }
  known.set(id, row)
  return row
}

export interface Draft {
  file: string
  side: Comment["side"]
  from: number
  to: number
}

// All rows of a review.
export function diffRows(all: Entry[], layout: Layout, comments: Comment[], draft?: Draft): DiffRow[] {
  const found: DiffRow[] = []
  for (const entry of all.slice(0, MAX_FILES)) {
    if (layout.folded.has(entry.file)) {
      found.push(headOf(entry))
      continue
    }
    headOf(entry)
    const { head, rows } = rowsOf(entry, layout)
    found.push(head)
    const shown = layout.parts.get(entry.file) ?? PART_ROWS
    const own = comments.filter((comment) => comment.file === entry.file)
    const isWritten = draft?.file === entry.file
    for (const row of rows.slice(0, shown)) {
      found.push(row)
      if (row.kind !== "line" || (own.length === 0 && !isWritten)) continue
      const ends = (it: { side: Comment["side"]; to: number }) => row.row[it.side]?.[it.side] === it.to
      for (const comment of own) if (ends(comment)) found.push(commentRow(entry, comment.id))
      if (isWritten && draft && ends(draft)) found.push(editorRow(entry))
    }
    if (rows.length > shown) found.push({ kind: "note", entry, note: "more" })
  }
  return found
}

const editors = new WeakMap<Entry, DiffRow>()

function editorRow(entry: Entry): DiffRow {
  const row = editors.get(entry) ?? { kind: "editor" as const, entry }
  editors.set(entry, row)
  return row
}
