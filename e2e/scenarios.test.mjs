// Every scenario of the demo model, with actions of the user in between, recorded through `/event` and judged
// by `baton check`. The table of idle pairs, Baton's beside OpenCode's, is in `scenarios.json` and shown in
// `docs/scenarios.md`. With UPDATE=1 both are rewritten instead of compared.

import assert from "node:assert/strict"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { acts, play } from "./support/acts.mjs"
import { render } from "./support/page.mjs"
import { ok, v2 } from "./support/sdk.mjs"
import { Baton, World } from "./support/server.mjs"
import { listen } from "./support/stream.mjs"
import { idlePairs, sessionOf, Tape } from "./support/tape.mjs"
import { hasTrace, readStreams, traceFile } from "./support/traces.mjs"

const TABLE = new URL("scenarios.json", import.meta.url)
const PAGE = new URL("../docs/scenarios.md", import.meta.url)
const DEMO = new URL("../crates/llm/src/demo/scenarios.json", import.meta.url)

const demo = JSON.parse(await readFile(DEMO, "utf8"))
const rows = [
  { scenario: "baton", about: "looks around the project and answers", run: play("baton") },
  ...Object.entries(demo).map(([scenario, { about }]) => ({ scenario, about, run: play(scenario) })),
  ...Object.entries(acts).map(([scenario, act]) => ({ scenario, ...act })),
]

const measured = new Map()
const tapes = []
let shared

describe("scenarios", { concurrency: rows.length }, () => {
  before(async () => (shared = await Baton.start()))
  after(async () => {
    await Promise.all(tapes.map((tape) => tape.close()))
    await shared.stop()
  })

  for (const row of rows) {
    test(row.scenario, { timeout: 180_000 }, async () => {
      const scene = await open(row)
      await row.run(scene)
      // Any further event of the turn would arrive before this.
      const fence = (await ok(scene.sdk.create({ title: "fence" }))).id
      await scene.tape.type("session.created", fence)
      measured.set(row.scenario, count(scene.tape.events, scene.id))
      await check(scene)
      if (scene.baton !== shared) await scene.baton.stop()
    })
  }
})

test("no event follows a finished turn", () => {
  // The streams of quick scenarios stayed open while slow ones ran. No further event arrived.
  for (const { tape, row } of tapes) {
    const end = tape.events.findIndex((event) => event.properties?.info?.title === "fence")
    const late = tape.events.slice(end + 1).filter((event) => sessionOf(event))
    assert.deepEqual(late, [], row.scenario)
  }
})

test("the table and the page match the results", async () => {
  const table = await Promise.all(
    rows.map(async ({ scenario }) => {
      const baton = measured.get(scenario)
      const opencode = await recorded(scenario)
      const entry = { scenario, baton: baton?.root ?? null, opencode: opencode?.root ?? null }
      const children = { baton: baton?.children ?? null, opencode: opencode?.children ?? null }
      return children.baton || children.opencode ? { ...entry, children } : entry
    }),
  )
  const page = render(table, new Map(rows.map(({ scenario, about }) => [scenario, about])))
  if (process.env.UPDATE) {
    await writeFile(TABLE, `[\n${table.map((entry) => `  ${JSON.stringify(entry)}`).join(",\n")}\n]\n`)
    await writeFile(PAGE, page)
    return
  }
  assert.deepEqual(table, JSON.parse(await readFile(TABLE, "utf8")), "scenarios.json is out of date: UPDATE=1")
  assert.equal(await readFile(PAGE, "utf8"), page, "docs/scenarios.md is out of date: UPDATE=1")
})

test("the check that passes here finds violations in OpenCode's recordings", async () => {
  const world = await World.create()
  for (const name of ["error_400", "abort"]) {
    const { code, stdout } = await world.run(["check", traceFile(name)])
    assert.notEqual(code, 0, name)
    assert.match(stdout, /idle/, name)
  }
  await world.remove()
})

// A session in a separate directory, with a stream that records it.
async function open(row) {
  const baton = row.ends ? await Baton.start() : shared
  const directory = row.ends ? baton.directory : path.join(baton.world.root, row.scenario)
  if (!row.ends) {
    await mkdir(directory)
    await writeFile(path.join(directory, "README.md"), "# A project\n\nEnd of file.\n")
  }
  const sdk = v2({ url: baton.url, directory })
  const tape = new Tape()
  const target = `/event?directory=${encodeURIComponent(directory)}`
  let stream = await listen(baton, { target, tape })
  const scene = { row, baton, sdk, tape, target }
  // Reconnects with the cursor after the server was down.
  scene.resume = async () => {
    stream = await listen(baton, { target, tape, headers: { "Last-Event-ID": tape.cursor } })
  }
  if (!row.ends) tapes.push({ row, tape, close: () => stream.close() })
  scene.id = (await ok(sdk.create({ title: row.scenario }))).id
  return scene
}

// Idle pairs of the session itself and of each child.
function count(events, root) {
  const pairs = idlePairs(events)
  const isChild = (event) => event.type === "session.created" && event.properties.info.parentID
  const children = events.filter(isChild).map((event) => pairs.get(event.properties.info.id) ?? 0)
  return { root: pairs.get(root) ?? 0, ...(children.length && { children }) }
}

// The same for OpenCode's recording, over all its streams; undefined if there is none.
async function recorded(scenario) {
  if (!hasTrace(scenario)) return undefined
  const events = (await readStreams(scenario)).flat()
  const roots = events.filter((event) => event.type === "session.created" && !event.properties.info.parentID)
  assert.equal(roots.length, 1, `${scenario} is a recording of one session`)
  return count(events, roots[0].properties.info.id)
}

async function check({ baton, tape, row }) {
  const file = path.join(baton.world.root, `${row.scenario}.jsonl`)
  await writeFile(file, tape.events.map((event) => `${JSON.stringify(event)}\n`).join(""))
  const { code, stdout, stderr } = await baton.world.run(["check", file])
  assert.equal(code, 0, `${stdout}${stderr}`)
}
