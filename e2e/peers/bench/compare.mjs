// Baton beside OpenCode's own server: the same project, the same model, the same calls, one after the other, so that a
// change of the machine's load meets both. Prints a table; nothing here passes or fails.
//
// `cargo xtask bench compare [--turns N] [--at-once N] [--no-claude]`

import { execFileSync } from "node:child_process"
import os from "node:os"
import { setTimeout as pause } from "node:timers/promises"
import { parseArgs } from "node:util"
import { binary } from "../../support/server.mjs"
import { claude } from "./claude.mjs"
import { Quick } from "./quick.mjs"
import { Side } from "./side.mjs"

const { values } = parseArgs({
  options: { turns: { type: "string" }, "at-once": { type: "string" }, "no-claude": { type: "boolean" } },
})
const STARTS = 5
const TURNS = Number(values.turns ?? 30)
const AT_ONCE = Number(values["at-once"] ?? 200)
const SESSIONS = 100
const STEPS = 20
const STEP_TURNS = 3
// Prompts that are sent together, and how often: OpenCode needs a quarter of a second for each of their turns.
const TOGETHER = 32
const ROUNDS = { opencode: 2, baton: 20 }
// Time in which a server finishes what it does after an idle, before its CPU time is read.
const SETTLE_MS = 500
const KINDS = ["opencode", "baton"]

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]
const ms = (value) => `${value < 100 ? value.toFixed(1) : value.toFixed(0)} ms`
const mib = (bytes) => `${(bytes / 1024 / 1024).toFixed(1)} MiB`
const rate = (value) => `${value.toFixed(0)}/s`
const load = () => os.loadavg()[0].toFixed(1)

const rows = []
// Adds a row of OpenCode's figure and Baton's. The ratio says how many times better Baton is.
function report(what, [theirs, ours], shown, ratio = theirs / ours) {
  rows.push([what, shown(theirs), shown(ours), `${ratio < 20 ? ratio.toFixed(1) : ratio.toFixed(0)}x`, load()])
  console.error(rows.at(-1).join(" | "))
}

// Calls a function for each side, the sides in another order each time.
async function alternate(times, sides, act) {
  for (let time = 0; time < times; time++) {
    for (const side of time % 2 ? [...sides].reverse() : sides) await act(side, time)
  }
}

const both = (sides, figure) => sides.map(figure)

async function starts(model) {
  const times = { opencode: [], baton: [] }
  await alternate(STARTS, KINDS, async (kind) => {
    const side = await Side.start(kind, model)
    times[kind].push(side.healthy)
    await side.stop()
  })
  report(`cold start to healthy, median of ${STARTS}`, both(KINDS, (kind) => median(times[kind])), ms)
}

// One turn after the other in one session.
async function oneByOne(sides, model) {
  const seen = new Map()
  for (const side of sides) {
    const session = await side.session()
    await side.turn(session, "hello")
    await pause(SETTLE_MS)
    seen.set(side, { session, cpu: side.cpu, first: [], last: [] })
  }
  await alternate(TURNS, sides, async (side) => {
    const { session, first, last } = seen.get(side)
    const turn = await side.turn(session, "hello")
    first.push(turn.first - turn.sent)
    last.push(turn.idle - model.ended)
  })
  await pause(SETTLE_MS)
  const figures = (of) => both(sides, (side) => of(seen.get(side), side))
  report(`prompt to first delta, same session, median of ${TURNS}`, figures(({ first }) => median(first)), ms)
  report(`last byte of the model to idle, median of ${TURNS}`, figures(({ last }) => median(last)), ms)
  report(`CPU time of a turn, mean of ${TURNS}`, figures(({ cpu }, side) => (side.cpu - cpu) / TURNS), ms)
}

async function toolSteps(sides) {
  const times = new Map(sides.map((side) => [side, []]))
  await alternate(STEP_TURNS, sides, async (side) => {
    const turn = await side.turn(await side.session(), `steps ${STEPS}`)
    times.get(side).push((turn.idle - turn.sent) / STEPS)
  })
  const what = `one tool step (\`bash\`, ${STEPS} in a turn), median of ${STEP_TURNS} turns`
  report(what, both(sides, (side) => median(times.get(side))), ms)
}

async function manySessions(sides) {
  for (const side of sides) {
    for (let count = 0; count < SESSIONS; count++) await side.turn(await side.session(), "hello")
  }
  report(`resident memory, ${SESSIONS} sessions of a turn`, both(sides, (side) => side.memory), mib)
}

async function atOnce(sides) {
  const times = []
  for (const side of sides) {
    const sessions = []
    for (let count = 0; count < AT_ONCE; count++) sessions.push(await side.session())
    const began = performance.now()
    await Promise.all(sessions.map((session) => side.turn(session, "hello")))
    times.push(performance.now() - began)
  }
  report(`${AT_ONCE} turns at once, all idle`, times, ms)
}

async function accepted(sides) {
  const rates = []
  for (const side of sides) {
    const rounds = ROUNDS[side.kind]
    const turns = []
    const began = performance.now()
    for (let round = 0; round < rounds; round++) {
      const sessions = Array.from({ length: TOGETHER }, () => side.session())
      turns.push(...(await Promise.all(sessions)))
    }
    const created = performance.now() - began
    const sent = performance.now()
    for (let round = 0; round < rounds; round++) {
      const sessions = turns.slice(round * TOGETHER, (round + 1) * TOGETHER)
      await Promise.all(sessions.map((session) => side.prompt(session, "hello")))
    }
    rates.push((rounds * TOGETHER) / ((performance.now() - sent) / 1000))
    console.error(`${side.kind}: ${turns.length} sessions created in ${ms(created)}`)
    await settled(side)
  }
  report(`prompts accepted, ${TOGETHER} at once, new sessions`, rates, rate, rates[1] / rates[0])
}

// Waits until no session is busy, so that the next measurement has the machine for itself.
async function settled(side) {
  for (;;) {
    const statuses = Object.values(await side.call("GET", "/session/status"))
    if (statuses.every(({ type }) => type === "idle")) return
    await pause(SETTLE_MS)
  }
}

const [, version] = execFileSync(binary, ["--version"], { encoding: "utf8" }).split(/\s/)
const model = await Quick.start()
const before = load()
const sides = []
try {
  await starts(model)
  for (const kind of KINDS) sides.push(await Side.start(kind, model))
  report("resident memory, healthy", both(sides, (side) => side.memory), mib)
  for (const side of sides) await side.listen()
  await oneByOne(sides, model)
  await toolSteps(sides)
  await manySessions(sides)
  await atOnce(sides)
  await accepted(sides)
} finally {
  for (const side of sides) await side.stop()
  await model.stop()
}
console.log(`${new Date().toISOString().slice(0, 10)}, ${os.cpus().length} cores, load ${before} to ${load()}\n`)
console.log(`| what | OpenCode ${process.env.OPENCODE_VERSION} | Baton ${version} | ratio | load |\n|---|---|---|---|---|`)
for (const cells of rows) console.log(`| ${cells.join(" | ")} |`)
if (!values["no-claude"]) console.log(`\n${await claude()}`)
