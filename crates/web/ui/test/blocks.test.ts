// A text that grows has the same blocks as the same text at once.

import assert from "node:assert/strict"
import { test } from "node:test"
import { Lexer } from "marked"
import { Blocks } from "../src/core/blocks.ts"

const SEED = Number(process.env.BATON_SEED ?? Date.now() % 100_000)
const ROUNDS = 300

const PIECES = [
  "A paragraph of words.\n\n",
  "Two lines\nof one paragraph.\n\n",
  "A heading\n===\n\n",
  "# Another\n",
  "- one\n- two\n\n",
  "1. first\n\n2. second\n\n   with text\n\n",
  "  - nested\n\n    deeper\n\n",
  "```js\nconst x = 1\n\nconst y = 2\n```\n\n",
  "~~~\nnever closed\n",
  "> a quote\nthat goes on\n\n",
  "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
  "***\n\n",
  "    indented code\n\n",
  "<div>\nhtml\n\n</div>\n\n",
  "[1]: http://example.com\n\n",
  "A [link][1] and *stars* and `code`\n",
  "\n\n\n",
  "Grüße 漢字 🎉\n\n",
]

// A small generator with a seed (mulberry32), so that a failure can be repeated.
function dice(seed: number) {
  let state = seed >>> 0
  return (limit: number) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit
  }
}

const lexer = (text: string) => new Lexer().blockTokens(text.replace(/\r\n?/g, "\n"))
const whole = (text: string) => new Blocks(lexer).split(text)

test(`a text that grows piece by piece has the blocks of the whole text (seed ${SEED})`, () => {
  const roll = dice(SEED)
  for (let round = 0; round < ROUNDS; round++) {
    const text = Array.from({ length: 2 + roll(12) }, () => PIECES[roll(PIECES.length)]).join("")
    const blocks = new Blocks(lexer)
    for (let at = 0; at < text.length; at += 1 + roll(7)) blocks.split(text.slice(0, at))
    assert.deepEqual(blocks.split(text), whole(text), JSON.stringify(text))
  }
})

test("only the end of a long text is lexed again", () => {
  let lexed = 0
  const blocks = new Blocks((text) => ((lexed += text.length), lexer(text)))
  const paragraph = `${"word ".repeat(40)}\n\n`
  let text = ""
  for (let at = 0; at < 500; at++) blocks.split((text += paragraph))
  assert.ok(lexed < 4 * text.length, `${lexed} characters for a text of ${text.length}`)
})

test("a text that is replaced, or whose tokens do not add up, is lexed as a whole", () => {
  const blocks = new Blocks(lexer)
  for (const text of ["one\n\ntwo\n\nthree", "other\n\ntwo", "a\r\n\r\nb\r\n\r\nc", "a\r\n\r\nb\r\n\r\nc\r\n\r\nd"]) {
    assert.deepEqual(blocks.split(text), whole(text))
  }
})
