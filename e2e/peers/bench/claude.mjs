// Claude Code alone beside Claude Code through Baton: the time that Baton adds to a turn of an external agent.

import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { Anthropic } from "../support/anthropic.mjs"
import { createWorld, environment } from "../support/peers.mjs"
import { Side, TURN_MS } from "./side.mjs"
import { within } from "../../support/wait.mjs"

const PROGRAM = process.env.CLAUDE_BIN
const CONVERSATIONS = 5
const TURNS = 5
const TEXT = "please [[hello]]"
// How Baton starts it (`drivers::claude`), so that only Baton differs.
const ARGS = "-p --input-format stream-json --output-format stream-json --include-partial-messages --verbose".split(" ")

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]

// Nothing is fetched, reported or updated.
const variables = (model) => ({
  ANTHROPIC_BASE_URL: model.url,
  ANTHROPIC_API_KEY: "not-a-key",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_AUTOUPDATER: "1",
  DISABLE_TELEMETRY: "1",
  DISABLE_ERROR_REPORTING: "1",
})

// A conversation with a process of its own. Returns the times of its turns; the first includes the start.
async function alone(world, model) {
  const times = []
  let began = performance.now()
  const options = { cwd: world.project, env: environment(world, variables(model)), stdio: ["pipe", "pipe", "ignore"] }
  const child = spawn(PROGRAM, ARGS, options)
  try {
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    for (let turn = 0; turn <= TURNS; turn++) {
      if (turn) began = performance.now()
      const message = { role: "user", content: [{ type: "text", text: TEXT }] }
      child.stdin.write(`${JSON.stringify({ type: "user", message })}\n`)
      await within(TURN_MS, result(lines), "a result of Claude Code")
      times.push(performance.now() - began)
    }
  } finally {
    child.kill("SIGKILL")
  }
  return times
}

async function result(lines) {
  for (;;) {
    const { value, done } = await lines.next()
    if (done) throw new Error("Claude Code ended without a result")
    if (JSON.parse(value).type === "result") return
  }
}

// The same conversation through Baton, which starts the process with the first prompt and keeps it.
async function through(side) {
  const times = []
  const session = await side.session()
  for (let turn = 0; turn <= TURNS; turn++) {
    const { sent, idle } = await side.turn(session, TEXT)
    times.push(idle - sent)
  }
  return times
}

// Measures both ways in turn and returns a table.
export async function claude() {
  const model = await Anthropic.start()
  const world = await createWorld(model)
  await world.configure({ agents: { "claude-code": { command: [PROGRAM], environment: variables(model) } } })
  const side = await Side.start("baton", model, world)
  side.model = { providerID: "claude-code", modelID: "default" }
  const times = { alone: [], through: [] }
  try {
    await side.listen()
    for (let count = 0; count < CONVERSATIONS; count++) {
      times.alone.push(await alone(world, model))
      times.through.push(await through(side))
    }
  } finally {
    await side.stop()
    await model.stop()
  }
  const row = (what, pick) => {
    const [own, ours] = [times.alone, times.through].map((all) => median(all.flatMap(pick)))
    return `| ${what} | ${own.toFixed(1)} ms | ${ours.toFixed(1)} ms | ${(ours - own).toFixed(1)} ms |`
  }
  return [
    "| Claude Code | alone | through Baton | added |",
    "|---|---|---|---|",
    row(`first turn of ${CONVERSATIONS} conversations, with the start of the process`, ([first]) => [first]),
    row("every later turn", ([, ...later]) => later),
  ].join("\n")
}
