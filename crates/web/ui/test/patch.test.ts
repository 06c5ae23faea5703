// Diffs: parsing, rows, words, and the patch that undoes a change, which git itself applies.

import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { test } from "node:test"
import { changedPieces, parsePatch, partners, reversePatch, splitRows, unifiedRows } from "../src/core/patch.ts"

const TWO = `diff --git a/one.txt b/one.txt
index 1..2 100644
--- a/one.txt
+++ b/one.txt
@@ -1,3 +1,3 @@ fn main
 a
--- b
+++ c
 d
diff --git a/two.txt b/two.txt
new file mode 100644
--- /dev/null
+++ b/two.txt
@@ -0,0 +1 @@
+new
\\ No newline at end of file
`

test("lines that look like headers belong to their hunk", () => {
  const [one, two] = parsePatch(TWO)
  assert.equal(one!.file, "one.txt")
  assert.equal(one!.hunks[0]!.about, "fn main")
  assert.deepEqual(one!.hunks[0]!.lines.map((line) => [line.kind, line.text, line.old, line.now]), [
    ["same", "a", 1, 1],
    ["remove", "-- b", 2, undefined],
    ["add", "++ c", undefined, 2],
    ["same", "d", 3, 3],
  ])
  assert.equal(two!.file, "two.txt")
  assert.equal(two!.hunks[0]!.lines[0]!.isOpen, true)
})

test("a patch in OpenCode's form, without git's header", () => {
  const [file] = parsePatch("Index: a b.md\n====\n--- a b.md\t\n+++ a b.md\t\n@@ -1,2 +1,3 @@\n one\n two\n+three\n")
  assert.equal(file!.file, "a b.md")
  assert.equal(file!.hunks[0]!.lines.length, 3)
})

test("binary files have no lines", () => {
  const [file] = parsePatch("diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n")
  assert.deepEqual([file!.isBinary, file!.hunks], [true, []])
})

test("rows keep every line once, in both views", () => {
  const patch = "@@ -1,5 +1,4 @@\n a\n-b\n-c\n+B\n d\n-e\n+ e\n"
  const [hunk] = parsePatch(`--- a/x\n+++ b/x\n${patch}`)[0]!.hunks
  const shown = (rows: ReturnType<typeof splitRows>) => rows.map((row) => [row.old?.text, row.now?.text])
  assert.deepEqual(shown(splitRows(hunk!)), [["a", "a"], ["b", "B"], ["c", undefined], ["d", "d"], ["e", " e"]])
  assert.deepEqual(shown(unifiedRows(hunk!)), [
    ["a", "a"],
    ["b", undefined],
    ["c", undefined],
    [undefined, "B"],
    ["d", "d"],
    ["e", undefined],
    [undefined, " e"],
  ])
  assert.deepEqual(shown(unifiedRows(hunk!, true)).at(-1), [" e", " e"], "whitespace off")
  const pairs = partners(hunk!)
  assert.equal(pairs.size, 2, "blocks of different lengths have no partners")
})

test("words within lines", () => {
  assert.deepEqual(changedPieces("let count = 1", "let total = 1"), [
    { text: "let ", isChanged: false },
    { text: "count", isChanged: true },
    { text: " = 1", isChanged: false },
  ])
  assert.deepEqual(changedPieces("nothing in common", "x"), [{ text: "nothing in common", isChanged: false }])
  assert.equal(changedPieces("word ".repeat(50_000), "other ".repeat(50_000)).length, 1, "endless lines end at once")
})

test("git applies the reverse of a file and of one hunk", () => {
  const root = mkdtempSync(path.join(tmpdir(), "baton-patch-"))
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "core.autocrlf=false", ...args], { cwd: root, encoding: "utf8" })
  const file = (name: string) => path.join(root, name)
  try {
    git("init", "-q")
    const lines = Array.from({ length: 60 }, (_, at) => `line ${at}`)
    writeFileSync(file("long.txt"), lines.join("\n"))
    writeFileSync(file("gone.txt"), "gone\n")
    git("add", ".")
    git("commit", "-qm", "one")
    const changed = lines.map((line, at) => (at === 3 ? "changed" : at === 58 ? "also" : line)).filter((_, at) => at !== 30)
    writeFileSync(file("long.txt"), changed.join("\n"))
    rmSync(file("gone.txt"))
    writeFileSync(file("new.txt"), "new\nfile")
    git("add", "-N", "new.txt")
    const patches = parsePatch(git("diff"))
    git("reset", "-q")
    const apply = (patch: string) => {
      writeFileSync(file("undo.patch"), patch)
      git("apply", "undo.patch")
    }
    const find = (name: string) => patches.find((patch) => patch.file === name)!
    const long = find("long.txt")
    assert.equal(long.hunks.length, 3)
    apply(reversePatch(long, [long.hunks[1]!]))
    assert.match(readFileSync(file("long.txt"), "utf8"), /changed[^]*line 30[^]*also/)
    apply(reversePatch(long, [long.hunks[0]!]))
    apply(reversePatch(long, [long.hunks[2]!]))
    assert.equal(readFileSync(file("long.txt"), "utf8"), lines.join("\n"))
    apply(reversePatch(find("new.txt")))
    assert.equal(existsSync(file("new.txt")), false)
    apply(reversePatch(find("gone.txt")))
    assert.equal(readFileSync(file("gone.txt"), "utf8"), "gone\n")
  } finally {
    rmSync(root, { recursive: true })
  }
})
