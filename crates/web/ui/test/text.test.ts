// Text of models and files: links, hidden characters, diffs.

import assert from "node:assert/strict"
import { test } from "node:test"
import { rows } from "../src/patch.ts"
import { linkTarget, oneLine, otherHost, visible, within, withoutAnsi } from "../src/plain.ts"

test("only addresses that open a page or a letter become links", () => {
  for (const href of ["https://a.example/x", "http://a.example", "mailto:a@b.example"]) assert.ok(linkTarget(href), href)
  for (const href of [
    "javascript:alert(1)",
    " javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\nscript:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "file:///etc/passwd",
    "blob:https://a.example/1",
    "/session",
    "//a.example",
    "#/new",
    "",
  ]) {
    assert.equal(linkTarget(href), undefined, href)
  }
})

test("a link whose text names another host shows the real one", () => {
  const host = (text: string, href: string) => otherHost(text, new URL(href))
  assert.equal(host("github.com/me", "https://evil.example/"), "evil.example")
  assert.equal(host("https://github.com", "https://github.com.evil.example/"), "github.com.evil.example")
  assert.equal(host("https://аpple.com", "https://аpple.com/"), "xn--pple-43d.com")
  assert.equal(host("github.com", "https://github.com/x"), undefined)
  assert.equal(host("the docs", "https://docs.example/"), undefined)
})

test("characters that hide or reorder are shown", () => {
  assert.equal(visible("rm \u202e-rf\u202c"), "rm ⟨U+202E⟩-rf⟨U+202C⟩")
  assert.equal(visible("a\u200bb\u0000\u001b"), "a⟨U+200B⟩b␀␛")
  assert.equal(oneLine(" two\nlines\t"), "two lines")
  assert.equal(withoutAnsi("\u001b[31mred\u001b[0m \u001b]0;title\u0007done\r\n"), "red done\n")
})

test("a path below the session's directory is shown without it", () => {
  assert.equal(within("/srv/shop/src/a.ts", "/srv/shop"), "src/a.ts")
  assert.equal(within("/srv/shop2/a.ts", "/srv/shop"), "/srv/shop2/a.ts")
  assert.equal(within("a.ts", undefined), "a.ts")
})

test("a patch becomes rows with the numbers of both sides", () => {
  const patch = "Index: a.txt\n=====\n--- a.txt\n+++ a.txt\n@@ -2,2 +2,3 @@\n same\n-old\n+new\n+-- also new\n"
  assert.deepEqual(rows(patch), [
    { kind: "file", text: "a.txt" },
    { kind: "hunk", text: "@@ -2,2 +2,3 @@" },
    { kind: "same", text: "same", old: 2, now: 2 },
    { kind: "remove", text: "old", old: 3 },
    { kind: "add", text: "new", now: 3 },
    { kind: "add", text: "-- also new", now: 4 },
  ])
})
