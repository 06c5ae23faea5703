// Whatever the network does, a client ends up where a fresh one begins; and the tests notice when a rule is missing.

import assert from "node:assert/strict"
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { after, test } from "node:test"
import { fileURLToPath, pathToFileURL } from "node:url"
import { type Core, play } from "./history.ts"

const CORE = fileURLToPath(new URL("../src/core/", import.meta.url))
// A nightly run takes more: BATON_LOGS=10000.
const LOGS = Number(process.env.BATON_LOGS ?? 300)
const SEED = Number(process.env.BATON_SEED ?? Date.now() % 1_000_000)
// Histories within which a missing rule must be noticed.
const MUTANT_LOGS = 300
const scratch = mkdtempSync(path.join(tmpdir(), "baton-mutants-"))
after(() => rmSync(scratch, { recursive: true }))

async function load(folder: string): Promise<Core> {
  const file = (name: string) => import(pathToFileURL(path.join(folder, name)).href)
  const [{ fold }, { snapshot }, { createWorld }] = [await file("fold.ts"), await file("state.ts"), await file("world.ts")]
  return { fold, snapshot, createWorld }
}

test(`a client that lost connections sees what a fresh one sees (seed ${SEED}, ${LOGS} histories)`, async () => {
  const core = await load(CORE)
  for (let at = 0; at < LOGS; at++) {
    const { seen, fresh, problems, world } = play(core, SEED + at)
    assert.deepEqual(seen, fresh, `seed ${SEED + at}`)
    assert.equal(world.counts.unreadable, 0, `seed ${SEED + at}`)
    assert.deepEqual(problems, [], `seed ${SEED + at}`)
  }
})

const MUTANTS = [
  ["seen events are applied again", "fold.ts", "id <= world.cursor", "id <= -1"],
  ["a read wins over the stream", "transcript.ts", "if (isNewer || (isLive && !isFinal))", "if (false)"],
  ["text is added to a part of an earlier connection", "transcript.ts", "known.connection !== world.connection", "false"],
  ["a read removes newer messages", "transcript.ts", "entry.tick > began || isTouched(entry, began)", "false"],
  ["nothing is remembered as deleted", "transcript.ts", "world.gone.add(id)", ""],
  ["messages are ordered by id", "transcript.ts", "left.time.created - right.time.created || ", ""],
  ["a new epoch keeps old statuses", "fold.ts", 'opening.status.get(session) ?? { type: "idle" }', "opening.status.get(session) ?? world.status.get(session)!.status"],
  ["a new epoch keeps old requests", "fold.ts", "if (!opening.requests.has(id)) closeRequest", "if (false) closeRequest"],
] as const

for (const [name, file, from, to] of MUTANTS) {
  test(`without a rule the comparison fails: ${name}`, async () => {
    const folder = path.join(scratch, name.replaceAll(" ", "-"))
    cpSync(CORE, folder, { recursive: true })
    const text = readFileSync(path.join(folder, file), "utf8")
    assert.equal(text.split(from).length, 2, `${file} has the rule once`)
    writeFileSync(path.join(folder, file), text.replace(from, to))
    const core = await load(folder)
    const differs = (seed: number) => {
      try {
        const { seen, fresh, problems } = play(core, seed)
        return problems.length > 0 || !isEqual(seen, fresh)
      } catch {
        return true
      }
    }
    const caught = Array.from({ length: MUTANT_LOGS }, (_, at) => SEED + at).some(differs)
    assert.ok(caught, `not noticed in ${MUTANT_LOGS} histories from seed ${SEED}`)
  })
}

const isEqual = (left: unknown, right: unknown) => {
  try {
    assert.deepEqual(left, right)
    return true
  } catch {
    return false
  }
}
