// Highlighted source becomes runs of text, and no character is lost.

import assert from "node:assert/strict"
import { test } from "node:test"
import rust from "highlight.js/lib/languages/rust"
import { createLowlight } from "lowlight"
import { grammarNamed, grammarOf, linesOf, runsOf } from "../src/core/runs.ts"

const SOURCE = 'fn main() {\n    // <b>\n    println!("a\nb");\n}\n'

test("runs contain the whole source, in order, with the kinds of tokens", () => {
  const runs = runsOf(createLowlight({ rust }).highlight("rust", SOURCE))
  assert.equal(runs.map((run) => run.text).join(""), SOURCE)
  assert.ok(runs.some((run) => run.text === "fn" && run.kind === "keyword"))
  assert.ok(runs.some((run) => run.text === "// <b>" && run.kind === "comment"))
  const lines = linesOf(runs)
  assert.deepEqual(lines.map((line) => line.map((run) => run.text).join("")), SOURCE.split("\n"))
})

test("grammars are found by ending and by the word after a fence", () => {
  assert.deepEqual(["a/b.rs", "x.TSX", "Makefile", ".gitignore"].map(grammarOf), ["rust", "typescript", undefined, undefined])
  assert.deepEqual(["rust", "ts title=x", "shell", "mermaid", "__proto__", undefined].map(grammarNamed), [
    "rust",
    "typescript",
    "bash",
    undefined,
    undefined,
    undefined,
  ])
})
