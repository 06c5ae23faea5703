// Rows of a unified diff.

export interface Row {
  kind: "add" | "remove" | "same" | "hunk" | "file"
  text: string
  old?: number
  now?: number
}

// The most rows that are shown before "show all".
export const MAX_ROWS = 400

export function rows(patch: string): Row[] {
  const found: Row[] = []
  let [old, now] = [0, 0]
  let isInside = false
  for (const line of patch.split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line)
    if (hunk) {
      ;[old, now] = [Number(hunk[1]), Number(hunk[2])]
      isInside = true
      found.push({ kind: "hunk", text: line })
    } else if (!isInside || /^(diff --git|Index: |index |={10,}|--- |\+\+\+ )/.test(line)) {
      isInside = isInside && !/^(diff --git|Index: )/.test(line)
      if (line.startsWith("+++ ")) found.push({ kind: "file", text: line.slice(4).replace(/^b\//, "").split("\t")[0]! })
    } else if (line.startsWith("+")) found.push({ kind: "add", text: line.slice(1), now: now++ })
    else if (line.startsWith("-")) found.push({ kind: "remove", text: line.slice(1), old: old++ })
    else if (line.startsWith(" ")) found.push({ kind: "same", text: line.slice(1), old: old++, now: now++ })
  }
  return found
}
