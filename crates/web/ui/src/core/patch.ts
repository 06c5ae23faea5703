// Unified diffs: parsing, rows for the screen, words within lines, and the patch that undoes a change.

export interface Line {
  kind: "add" | "remove" | "same"
  text: string
  old?: number
  now?: number
  // The file ends here without a line break.
  isOpen?: boolean
}

export interface Hunk {
  old: number
  now: number
  // Text after the second `@@`: usually the enclosing function.
  about: string
  lines: Line[]
}

export interface FilePatch {
  file: string
  // Lines before the first hunk, as git writes them.
  head: string[]
  hunks: Hunk[]
  isBinary: boolean
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/

// Parses a patch of one or more files.
export function parsePatch(patch: string): FilePatch[] {
  const files: FilePatch[] = []
  let file: FilePatch | undefined
  let hunk: Hunk | undefined
  let [old, now] = [0, 0]
  // Counts of the hunk's header end it, so that a removed line `-- x` is not taken for the next file's `--- x`.
  let [oldLeft, nowLeft] = [0, 0]
  const begin = (): FilePatch => {
    const made = { file: "", head: [], hunks: [], isBinary: false }
    files.push(made)
    return made
  }
  for (const line of patch.split("\n")) {
    const isInside = hunk !== undefined && (oldLeft > 0 || nowLeft > 0)
    const sign = line[0]
    if (hunk && isInside && (sign === "+" || sign === "-" || sign === " " || line === "")) {
      const text = line.slice(1)
      if (sign === "+") hunk.lines.push({ kind: "add", text, now: now++ })
      else if (sign === "-") hunk.lines.push({ kind: "remove", text, old: old++ })
      else hunk.lines.push({ kind: "same", text, old: old++, now: now++ })
      if (sign !== "+") oldLeft--
      if (sign !== "-") nowLeft--
      continue
    }
    if (line.startsWith("\\")) {
      const last = hunk?.lines.at(-1)
      if (last) last.isOpen = true
      continue
    }
    const header = HUNK.exec(line)
    if (header) {
      file ??= begin()
      ;[old, now] = [Number(header[1]), Number(header[2])]
      ;[oldLeft, nowLeft] = counts(line)
      hunk = { old, now, about: header[3] ?? "", lines: [] }
      file.hunks.push(hunk)
      continue
    }
    if (line === "") continue
    if (!file || hunk || /^(diff --git |Index: )/.test(line)) {
      file = begin()
      hunk = undefined
    }
    file.head.push(line)
    if (/^(Binary files |GIT binary patch)/.test(line)) file.isBinary = true
    const named = /^(?:\+\+\+|---) (?!\/dev\/null)(?:[ab]\/)?([^\t]*)/.exec(line)
    if (named) file.file = named[1]!
  }
  return files
}

function counts(header: string): [number, number] {
  const found = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(header)
  return [Number(found?.[1] ?? 1), Number(found?.[2] ?? 1)]
}

// --- Undo ------------------------------------------------------------------------------------------------------------

const size = (hunk: Hunk, without: Line["kind"]) => hunk.lines.filter((line) => line.kind !== without).length

// Lines of a head that swap their meaning.
const SWAPS = [
  ["new file mode", "deleted file mode"],
  ["old mode", "new mode"],
  ["rename from", "rename to"],
].flatMap(([one, two]) => [[one!, two!], [two!, one!]] as const)

function reverseHead(line: string): string | undefined {
  if (/^(index |similarity |--- |\+\+\+ )/.test(line)) return undefined
  const swap = SWAPS.find(([name]) => line.startsWith(`${name} `))
  return swap ? swap[1] + line.slice(swap[0].length) : line
}

export const headerOf = (hunk: Hunk) =>
  `@@ -${hunk.old},${size(hunk, "add")} +${hunk.now},${size(hunk, "remove")} @@ ${hunk.about}`.trimEnd()

// Returns the patch that undoes a file's change, or only some of its hunks.
export function reversePatch(patch: FilePatch, hunks: Hunk[] = patch.hunks): string {
  const isWhole = hunks.length === patch.hunks.length
  const from = patch.head.find((line) => line.startsWith("--- "))
  const to = patch.head.find((line) => line.startsWith("+++ "))
  const head = patch.head.map(reverseHead).filter((line) => line !== undefined)
  // Undoing one hunk keeps the file, so marks of a new or deleted file do not apply.
  const kept = isWhole ? head : head.filter((line) => !/^(new|deleted) file mode /.test(line))
  const name = (line: string, side: "a" | "b") => line.slice(4).replace(/^[ab]\//, `${side}/`)
  const names = from && to ? [`--- ${name(to, "a")}`, `+++ ${name(from, "b")}`] : []
  const body = hunks.flatMap((hunk) => {
    const header = `@@ -${hunk.now},${size(hunk, "remove")} +${hunk.old},${size(hunk, "add")} @@`
    return [header, ...reverseLines(hunk.lines)]
  })
  return `${[...kept, ...names, ...body].join("\n")}\n`
}

// Removed lines come before added ones, as in every patch.
function reverseLines(lines: Line[]): string[] {
  const out: string[] = []
  let added: string[] = []
  const text = (sign: string, line: Line) => [sign + line.text, ...(line.isOpen ? ["\\ No newline at end of file"] : [])]
  for (const line of lines) {
    if (line.kind === "remove") added.push(...text("+", line))
    else if (line.kind === "add") out.push(...text("-", line))
    else {
      out.push(...added, ...text(" ", line))
      added = []
    }
  }
  return [...out, ...added]
}

// --- Rows ------------------------------------------------------------------------------------------------------------

// A row of the split view has a line on each side; one of the unified view has a line on one of them, or on both.
export interface Row {
  old?: Line
  now?: Line
}

const packed = (text: string) => text.replace(/\s+/g, "")

// Pairs the removed and added lines of a block in order.
function blocks(hunk: Hunk): { same?: Line; removed: Line[]; added: Line[] }[] {
  const found: { same?: Line; removed: Line[]; added: Line[] }[] = []
  let block: { removed: Line[]; added: Line[] } | undefined
  for (const line of hunk.lines) {
    if (line.kind === "same") {
      block = undefined
      found.push({ same: line, removed: [], added: [] })
      continue
    }
    if (!block || (line.kind === "remove" && block.added.length > 0)) {
      block = { removed: [], added: [] }
      found.push(block)
    }
    ;(line.kind === "add" ? block.added : block.removed).push(line)
  }
  return found
}

export function splitRows(hunk: Hunk, ignoresSpace = false): Row[] {
  return blocks(hunk).flatMap(({ same, removed, added }): Row[] => {
    if (same) return [{ old: same, now: same }]
    return Array.from({ length: Math.max(removed.length, added.length) }, (_, at) => {
      const [old, now] = [removed[at], added[at]]
      if (ignoresSpace && old && now && packed(old.text) === packed(now.text)) return { old: sameLine(old, now), now: sameLine(old, now) }
      return { old, now }
    })
  })
}

const sameLine = (old: Line, now: Line): Line => ({ ...now, kind: "same", old: old.old })

export function unifiedRows(hunk: Hunk, ignoresSpace = false): Row[] {
  const rows: Row[] = []
  let waiting: Row[] = []
  for (const row of splitRows(hunk, ignoresSpace)) {
    if (row.now?.kind === "same") {
      rows.push(...waiting, row)
      waiting = []
    } else {
      if (row.old) rows.push({ old: row.old })
      if (row.now) waiting.push({ now: row.now })
    }
  }
  return [...rows, ...waiting]
}

// The line that a changed line replaces or is replaced by, for words within lines.
export function partners(hunk: Hunk): Map<Line, Line> {
  const found = new Map<Line, Line>()
  for (const { removed, added } of blocks(hunk)) {
    if (removed.length !== added.length) continue
    removed.forEach((old, at) => found.set(old, added[at]!).set(added[at]!, old))
  }
  return found
}

// --- Words within lines ----------------------------------------------------------------------------------------------

export interface Piece {
  text: string
  isChanged: boolean
}

// Longer lines are compared from their ends only.
const MAX_WORDS = 200

const tokens = (text: string) => text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? []

// The pieces of `text` that differ from `other`.
export function changedPieces(text: string, other: string): Piece[] {
  const [own, foreign] = [tokens(text), tokens(other)]
  let start = 0
  while (start < own.length && start < foreign.length && own[start] === foreign[start]) start++
  let end = 0
  while (end < own.length - start && end < foreign.length - start && own.at(-1 - end) === foreign.at(-1 - end)) end++
  const middle = own.slice(start, own.length - end)
  const against = foreign.slice(start, foreign.length - end)
  const kept = middle.length * against.length > MAX_WORDS * MAX_WORDS ? new Set<number>() : common(middle, against)
  const pieces: Piece[] = []
  const add = (word: string, isChanged: boolean) => {
    const last = pieces.at(-1)
    if (last && last.isChanged === isChanged) last.text += word
    else pieces.push({ text: word, isChanged })
  }
  own.forEach((word, at) => add(word, at >= start && at < own.length - end && !kept.has(at - start)))
  // A line with little in common is easier to read without marks.
  const changed = pieces.filter((piece) => piece.isChanged).reduce((sum, piece) => sum + piece.text.length, 0)
  return changed > text.length * 0.7 ? [{ text, isChanged: false }] : pieces
}

// Indices of the words of a longest common subsequence.
function common(left: string[], right: string[]): Set<number> {
  const width = right.length + 1
  const table = new Uint16Array((left.length + 1) * width)
  const cell = (row: number, column: number) => table[row * width + column] ?? 0
  for (let row = left.length - 1; row >= 0; row--) {
    for (let column = right.length - 1; column >= 0; column--) {
      table[row * width + column] =
        left[row] === right[column] ? cell(row + 1, column + 1) + 1 : Math.max(cell(row + 1, column), cell(row, column + 1))
    }
  }
  const kept = new Set<number>()
  let [row, column] = [0, 0]
  while (row < left.length && column < right.length) {
    if (left[row] === right[column]) {
      kept.add(row)
      row++
      column++
    } else if (cell(row + 1, column) >= cell(row, column + 1)) row++
    else column++
  }
  return kept
}
