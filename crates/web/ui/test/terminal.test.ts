// Rules of terminals.

import assert from "node:assert/strict"
import { test } from "node:test"
import { findAddresses, needsQuestion, readMark, retryDelay } from "../src/core/terminal.ts"

const bytes = (text: string) => new TextEncoder().encode(text).buffer as ArrayBuffer

test("the mark after old output tells the cursor, and nothing else does", () => {
  assert.equal(readMark(bytes('\0{"cursor":42}')), 42)
  for (const text of ['{"cursor":42}', "\0", "\0{}", '\0{"cursor":"42"}', "\0[", ""]) assert.equal(readMark(bytes(text)), undefined, text)
})

test("a paste with a line break needs a question", () => {
  for (const text of ["a\nb", "rm -rf x\n", "a\rb", "\r\n"]) assert.equal(needsQuestion(text), true, JSON.stringify(text))
  for (const text of ["", "ls -la", "a\tb"]) assert.equal(needsQuestion(text), false, JSON.stringify(text))
})

test("addresses end where the sentence goes on", () => {
  const cases: [string, string[]][] = [
    ["see http://a.example/b. Then", ["http://a.example/b"]],
    ["(https://a.example/b)", ["https://a.example/b"]],
    ["https://a.example/b_(c)", ["https://a.example/b_(c)"]],
    ["[https://a.example], mailto:me@a.example!", ["https://a.example", "mailto:me@a.example"]],
    ['<a href="http://a.example/x">', ["http://a.example/x"]],
    ["javascript:alert(1) file:///etc/passwd ftp://a.example xhttp://b.example", []],
  ]
  for (const [line, expected] of cases) {
    const found = findAddresses(line)
    assert.deepEqual(found.map((it) => it.address), expected, line)
    for (const { from, to, address } of found) assert.equal(line.slice(from, to), address)
  }
})

test("the wait between attempts grows to a limit", () => {
  assert.deepEqual([0, 1, 2, 20].map(retryDelay), [250, 500, 1_000, 5_000])
})
