// Every sentence is in a language file, and every language has every sentence.

import assert from "node:assert/strict"
import { readFileSync, readdirSync } from "node:fs"
import path from "node:path"
import { test } from "node:test"
import { fileURLToPath } from "node:url"
import ts from "typescript"
import { de } from "../src/words/de.ts"
import { en } from "../src/words/en.ts"

const SRC = fileURLToPath(new URL("../src", import.meta.url))
// Attributes that a user reads or hears.
const READ = ["aria-label", "aria-description", "title", "placeholder", "alt", "label"]
// Texts that are the same in every language: the product's name and names of keys.
const NAMES = /^(Baton|[A-Za-z?]|Esc|Enter|Ctrl|Alt|Shift)$/

function strings(file: string): string[] {
  const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX)
  const found: string[] = []
  const note = (text: string) => /\p{L}/u.test(text) && !NAMES.test(text.trim()) && found.push(text.trim())
  const visit = (node: ts.Node) => {
    if (ts.isJsxText(node)) note(node.text)
    if (ts.isJsxAttribute(node) && node.initializer && READ.includes(node.name.getText())) {
      const value = ts.isJsxExpression(node.initializer) ? node.initializer.expression : node.initializer
      if (value && ts.isStringLiteralLike(value)) note(value.text)
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

test("no component contains a sentence", () => {
  const files = (readdirSync(SRC, { recursive: true }) as string[]).filter((name) => name.endsWith(".tsx"))
  assert.ok(files.length > 5)
  for (const name of files) assert.deepEqual(strings(path.join(SRC, name)), [], name)
})

test("every language has every sentence, in the same form", () => {
  assert.deepEqual(Object.keys(de).sort(), Object.keys(en).sort())
  for (const [key, value] of Object.entries(en)) {
    const other = de[key as keyof typeof en]
    assert.equal(typeof other, typeof value, key)
    assert.notEqual(other, "", key)
  }
})
