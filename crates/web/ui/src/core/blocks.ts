// The blocks of a text that grows. Only the end of the text is lexed again, so a long answer costs no more per character
// than a short one.

export interface Lexed {
  type: string
  raw: string
}

// A line that is still being written can join the block before it, as `2` becomes `2. item` of a list.
const UNSETTLED_BLOCKS = 2

export class Blocks {
  #lex: (text: string) => Lexed[]
  #text = ""
  #tokens: Lexed[] = []
  // False if the tokens do not add up to the text, so that they cannot tell where a block begins.
  #isExact = true

  constructor(lex: (text: string) => Lexed[]) {
    this.#lex = lex
  }

  // Returns the sources of the blocks of a text, quickly if the text continues the last one.
  split(text: string): string[] {
    // Engines compare whole strings many times faster than `startsWith` does.
    const continues = this.#isExact && text.slice(0, this.#text.length) === this.#text
    const kept = continues ? this.#settled() : []
    const start = kept.reduce((sum, { raw }) => sum + raw.length, 0)
    this.#tokens = [...kept, ...this.#lex(text.slice(start))]
    this.#text = text
    this.#isExact = this.#tokens.reduce((sum, { raw }) => sum + raw.length, 0) === text.length
    return this.#tokens.filter(({ type }) => type !== "space").map(({ raw }) => raw)
  }

  // The tokens that further text cannot change.
  #settled(): Lexed[] {
    let left = UNSETTLED_BLOCKS
    let end = this.#tokens.length
    while (end > 0 && left > 0) if (this.#tokens[--end]!.type !== "space") left--
    return this.#tokens.slice(0, end)
  }
}
