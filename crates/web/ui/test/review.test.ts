// Comments stay with the lines they were written for, and become one prompt.

import assert from "node:assert/strict"
import { test } from "node:test"
import { parsePatch } from "../src/core/patch.ts"
import { type Comment, excerpt, place, reviewPrompt } from "../src/core/review.ts"
import { treeRows } from "../src/core/tree.ts"

const patch = (text: string) => parsePatch(`--- a/x.ts\n+++ b/x.ts\n@@ -1,2 +1,2 @@\n one\n-two\n+${text}\n`)[0]!
const comment = (more: Partial<Comment> = {}): Comment => ({
  id: "1",
  file: "x.ts",
  side: "now",
  from: 1,
  to: 2,
  lines: ["one", "zwei"],
  text: "why German?",
  time: 0,
  ...more,
})

test("a comment knows if its code has changed", () => {
  assert.deepEqual(excerpt(patch("zwei"), "now", 1, 2), ["one", "zwei"])
  assert.equal(place(comment(), patch("zwei")), "here")
  assert.equal(place(comment(), patch("deux")), "changed")
  assert.equal(place(comment({ from: 40, to: 41 }), patch("zwei")), "absent")
  assert.equal(place(comment(), undefined), "absent")
})

test("a review is one prompt, in the order of files and lines", () => {
  const text = reviewPrompt(
    [comment({ file: "y.ts", from: 9, to: 9, lines: ["a ``` b"], side: "old" }), comment({ from: 5, to: 5, lines: ["e"] }), comment()],
    { intro: "Please:", removed: "before" },
  )
  assert.equal(
    text,
    "Please:\n\n**x.ts:1-2**\n```\none\nzwei\n```\nwhy German?\n\n**x.ts:5**\n```\ne\n```\nwhy German?\n\n**y.ts:9** (before)\n````\na ``` b\n````\nwhy German?",
  )
})

test("a tree joins lone folders, and closed folders hide their files", () => {
  const entries = ["src/a/b/one.ts", "src/a/b/two.ts", "README.md"].map((path) => ({ path, value: 0 }))
  assert.deepEqual(treeRows(entries).map((row) => `${"  ".repeat(row.depth)}${row.name}`), ["src/a/b", "  one.ts", "  two.ts", "README.md"])
  assert.equal(treeRows(entries, new Set(["src/a/b"])).length, 2)
})
