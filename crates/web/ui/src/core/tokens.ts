// Token counts in the spellings of several servers.

import type { Tokens } from "./wire.ts"

const INPUT = ["input", "inputTokens", "input_tokens", "promptTokens", "prompt_tokens"]
const OUTPUT = ["output", "outputTokens", "output_tokens", "completionTokens", "completion_tokens"]
const REASONING = ["reasoning", "reasoningTokens", "reasoning_tokens"]
const CACHE_READ = [
  "cacheRead",
  "cache_read",
  "cachedInputTokens",
  "cached_input_tokens",
  "cacheReadInputTokens",
  "cache_read_input_tokens",
]
const CACHE_WRITE = [
  "cacheWrite",
  "cache_write",
  "cacheCreationInputTokens",
  "cache_creation_input_tokens",
  "cacheWriteInputTokens",
]

type Counts = Record<string, unknown>

const largest = (counts: Counts, names: string[]) =>
  Math.max(0, ...names.map((name) => counts[name]).filter((value) => typeof value === "number"))

export function readTokens(counts: Counts): Tokens {
  const cache = counts.cache
  const inner = (typeof cache === "object" && cache !== null ? cache : {}) as Counts
  return {
    input: largest(counts, INPUT),
    output: largest(counts, OUTPUT),
    reasoning: largest(counts, REASONING),
    cache: {
      // A single number counts the tokens that were read.
      read: typeof cache === "number" ? cache : Math.max(largest(inner, ["read"]), largest(counts, CACHE_READ)),
      write: Math.max(largest(inner, ["write"]), largest(counts, CACHE_WRITE)),
    },
  }
}
