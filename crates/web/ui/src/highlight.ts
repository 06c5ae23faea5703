// Asks the highlighting worker, which is loaded with the first request.

import type { Run } from "./core/runs.ts"
import { ownScript } from "./dom.ts"
import address from "./highlight.worker.ts?worker&url"

export interface Order {
  id: number
  grammar: string
  text: string
}

export interface Answer {
  id: number
  runs: Run[] | null
}

// Longer source stays plain.
const MAX_TEXT = 200_000
// Requests that wait; further ones stay plain.
const MAX_WAITING = 100
// Results that are kept.
const MAX_KNOWN = 200
// A grammar that takes longer is stuck on this text.
const DEADLINE_MS = 5_000

const known = new Map<string, Run[] | null>()
const waiting = new Map<number, (runs: Run[] | null) => void>()
let worker: Worker | undefined
let count = 0

function start(): Worker {
  const made = new Worker(ownScript(address), { type: "module" })
  made.onmessage = ({ data }: MessageEvent<Answer>) => settle(data.id, data.runs)
  made.onerror = stop
  return made
}

function settle(id: number, runs: Run[] | null) {
  waiting.get(id)?.(runs)
  waiting.delete(id)
}

// Ends a worker that does not answer. What waits stays plain.
function stop() {
  worker?.terminate()
  worker = undefined
  for (const id of [...waiting.keys()]) settle(id, null)
}

// Returns null for source that stays plain.
export async function highlight(grammar: string, text: string): Promise<Run[] | null> {
  const key = `${grammar} ${text}`
  const found = known.get(key)
  if (found !== undefined) return found
  if (text.length > MAX_TEXT || waiting.size >= MAX_WAITING) return null
  const id = count++
  worker ??= start()
  const asked = worker
  const timer = setTimeout(() => waiting.has(id) && stop(), DEADLINE_MS)
  const runs = await new Promise<Run[] | null>((resolve) => {
    waiting.set(id, resolve)
    asked.postMessage({ id, grammar, text } satisfies Order)
  })
  clearTimeout(timer)
  if (known.size >= MAX_KNOWN) known.delete(known.keys().next().value!)
  known.set(key, runs)
  return runs
}
