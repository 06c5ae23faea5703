// Recordings of OpenCode's own streams.

import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"

const FOLDER = new URL("../../crates/protocol/tests/fixtures/opencode/", import.meta.url)

// The file of a recording, for programs that read it themselves.
export const traceFile = (name) => fileURLToPath(new URL(`${name}.jsonl`, FOLDER))

export const hasTrace = (name) => existsSync(traceFile(name))

// The events of each `GET /event` of a recording.
export async function readStreams(name) {
  const text = await readFile(traceFile(name), "utf8")
  const streams = new Map()
  for (const line of text.trim().split("\n").map((line) => JSON.parse(line))) {
    if (line.k !== "event") continue
    const label = line.label ?? ""
    streams.set(label, [...(streams.get(label) ?? []), line.d])
  }
  return [...streams.values()]
}

// The events of a recording with a single stream.
export const readTrace = async (name) => (await readStreams(name))[0]
