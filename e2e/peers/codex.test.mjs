// The real Codex behind Baton: what clients see of it is what they see of any agent, and each turn is idle once.

import assert from "node:assert/strict"
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs"
import { mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { Baton, World } from "../support/server.mjs"
import { listen } from "../support/stream.mjs"
import { requireSealed } from "./support/peers.mjs"
import { Responses } from "./support/responses.mjs"

// Where `cargo xtask peers` has installed Codex.
const PROGRAM = process.env.CODEX_BIN
// It is a large program on a small machine.
const PATIENT = { ms: 90_000 }

const PATCH = "*** Begin Patch\n*** Update File: README.md\n@@\n End of file.\n+A line at the end.\n*** End Patch\n"

const scenarios = {
  hello: [{ acts: [{ say: "Hello from the scripted model." }] }],
  read_edit: [
    { acts: [{ say: "I'll read it first." }, { call: "exec_command", input: { cmd: "cat README.md" } }] },
    { acts: [{ say: "Now I'll add the line." }, { patch: PATCH }] },
    { acts: [{ say: "Done." }] },
  ],
  permission: [
    { acts: [{ call: "exec_command", input: { cmd: "touch asked.txt" } }] },
    { acts: [{ say: "The file is there." }] },
  ],
  hold: [{ acts: [{ say: "I begin and wait", hold: true }] }],
  refused: [{ status: 400, message: "scripted refusal" }],
}

async function createWorld(model) {
  requireSealed()
  assert.ok(PROGRAM, "CODEX_BIN is not set: run this with `cargo xtask peers`")
  const world = await World.create()
  await symlink(PROGRAM, path.join(world.bin, "codex"))
  await mkdir(path.join(world.home, ".codex"))
  const settings = [
    'model = "gpt-5.5"',
    'model_provider = "scripted"',
    "check_for_update_on_startup = false",
    "[analytics]",
    "enabled = false",
    "[model_providers.scripted]",
    'name = "Scripted"',
    `base_url = ${JSON.stringify(model.url)}`,
    'wire_api = "responses"',
    'env_key = "SCRIPTED_KEY"',
    "request_max_retries = 0",
    "stream_max_retries = 0",
  ]
  await writeFile(path.join(world.home, ".codex/config.toml"), settings.join("\n"))
  const config = { agents: { codex: { permission_mode: "bypass" } } }
  await writeFile(path.join(world.project, "baton.json"), JSON.stringify(config))
  return world
}

// The processes of Codex that work in a directory; only those that a server has started itself, if one is given: Codex
// starts helpers of the same name for a moment.
function processes(directory, server) {
  const numbers = readdirSync("/proc").filter((name) => /^\d+$/.test(name))
  return numbers.filter((number) => {
    try {
      const isHere = readlinkSync(`/proc/${number}/cwd`) === directory
      const parent = /^PPid:\s*(\d+)$/m.exec(readFileSync(`/proc/${number}/status`, "utf8"))[1]
      if (server && parent !== String(server.pid)) return false
      return isHere && readFileSync(`/proc/${number}/cmdline`, "utf8").includes("app-server")
    } catch {
      return false
    }
  })
}

describe("the real Codex", () => {
  let model, baton
  before(async () => {
    model = await Responses.start(scenarios)
    baton = await Baton.start({ world: await createWorld(model), env: { SCRIPTED_KEY: "not-a-key" } })
  })
  after(async () => {
    await baton?.stop()
    await model?.stop()
  })

  const call = async (method, target, body) => {
    const init = { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) }
    const response = await baton.fetch(target, init)
    const text = await response.text()
    assert.ok(response.ok, `${method} ${target}: ${response.status} ${text}`)
    return text ? JSON.parse(text) : undefined
  }
  const create = (more = {}) => call("POST", "/session", more)
  const prompt = (session, text) =>
    call("POST", `/session/${session.id}/prompt_async`, {
      model: { providerID: "codex", modelID: "default" },
      parts: [{ type: "text", text }],
    })
  const record = async (session) => {
    const messages = await call("GET", `/session/${session.id}/message`)
    const parts = messages.filter(({ info }) => info.role === "assistant").flatMap(({ parts }) => parts)
    return {
      messages,
      said: parts.filter(({ type }) => type === "text").map(({ text }) => text),
      tools: parts.filter(({ type }) => type === "tool").map(({ tool, state }) => [tool, state.status]),
    }
  }
  const count = (tape, session, type) => tape.of(session.id).filter((event) => event.type === type).length
  // How each of the turns ended: one idle for each.
  const ends = (tape, session) => {
    const statuses = tape.of(session.id).filter(({ type }) => type === "session.status")
    const idle = statuses.map(({ properties }) => properties.status).filter(({ type }) => type === "idle")
    assert.equal(count(tape, session, "session.idle"), idle.length)
    return idle.map(({ reason }) => reason)
  }

  test("it is offered as a provider and as an agent", async () => {
    const { providers } = await call("GET", "/config/providers")
    assert.ok(providers.some(({ id }) => id === "codex"), JSON.stringify(providers.map(({ id }) => id)))
    const agents = await call("GET", "/agent")
    assert.ok(agents.some(({ name }) => name === "codex"))
  })

  test("it reads a file and adds a line, and is idle once", async () => {
    const { tape, close } = await listen(baton)
    const session = await create()
    await prompt(session, "Read README.md and add a line at the end [read_edit]")
    await tape.idle(session.id, 1, PATIENT)
    const { said, tools } = await record(session)
    assert.deepEqual(tools, [["bash", "completed"], ["apply_patch", "completed"]])
    assert.deepEqual(said, ["I'll read it first.", "Now I'll add the line.", "Done."])
    const readme = await readFile(path.join(baton.directory, "README.md"), "utf8")
    assert.match(readme, /End of file\.\nA line at the end\.\n$/)
    assert.deepEqual(ends(tape, session), ["completed"])
    const { tokens } = await call("GET", `/session/${session.id}`)
    assert.deepEqual([tokens.input, tokens.cache.read, tokens.output, tokens.reasoning], [3000, 600, 90, 12])
    await close()
  })

  for (const [reply, exists, reason] of [
    ["once", true, "completed"],
    ["reject", false, "blocked"],
  ]) {
    test(`a permission that is answered with ${reply}`, async () => {
      const file = path.join(baton.directory, "asked.txt")
      await rm(file, { force: true })
      const { tape, close } = await listen(baton)
      const session = await create({ permission: [{ permission: "bash", pattern: "*", action: "ask" }] })
      await prompt(session, "please [permission]")
      const asked = await tape.type("permission.asked", session.id, PATIENT)
      assert.equal(asked.properties.permission, "bash")
      assert.deepEqual(asked.properties.patterns, ["touch asked.txt"])
      assert.ok(!existsSync(file), "nothing happens before somebody says so")
      await call("POST", `/permission/${asked.properties.id}/reply`, { reply })
      await tape.idle(session.id, 1, PATIENT)
      assert.equal(existsSync(file), exists)
      assert.deepEqual(ends(tape, session), [reason])
      await close()
    })
  }

  test("it can be stopped, and goes on in the same process", async () => {
    const { tape, close } = await listen(baton)
    const session = await create()
    await prompt(session, "please [hold]")
    await tape.type("message.part.delta", session.id, PATIENT)
    const before = processes(baton.directory, baton.child)
    await call("POST", `/session/${session.id}/abort`)
    await tape.idle(session.id, 1, PATIENT)
    assert.deepEqual(ends(tape, session), ["aborted"])
    model.release()
    await prompt(session, "please [hello]")
    await tape.idle(session.id, 2, PATIENT)
    assert.deepEqual(ends(tape, session), ["aborted", "completed"])
    assert.equal((await record(session)).said.at(-1), "Hello from the scripted model.")
    assert.deepEqual(processes(baton.directory, baton.child), before, "no process was started for the second turn")
    await close()
  })

  test("a refusal of the provider is an error, and idle comes once", async () => {
    const { tape, close } = await listen(baton)
    const session = await create()
    await prompt(session, "please [refused]")
    const failed = await tape.type("session.error", session.id, PATIENT)
    assert.match(failed.properties.error.data.message, /scripted refusal/)
    await tape.idle(session.id, 1, PATIENT)
    assert.deepEqual(ends(tape, session), ["error"])
    await close()
  })

  test("after a restart of the server the conversation goes on, and no process is left of before", async () => {
    const first = await listen(baton)
    const session = await create()
    await prompt(session, "please [hello]")
    await first.tape.idle(session.id, 1, PATIENT)
    const before = processes(baton.directory)
    assert.notDeepEqual(before, [])
    await baton.shutdown()
    assert.deepEqual(processes(baton.directory), [], "all of them ended with the server")
    await baton.begin()
    const second = await listen(baton)
    await prompt(session, "once more, please [hello]")
    await second.tape.idle(session.id, 1, PATIENT)
    assert.deepEqual(ends(second.tape, session), ["completed"])
    const told = JSON.stringify(model.calls.at(-1).input)
    assert.match(told, /please \[hello\].*Hello from the scripted model.*once more/s, "Codex remembers what was said")
    await second.close()
  })

  test("a server that is killed takes its processes with it", async () => {
    const { tape } = await listen(baton)
    const session = await create()
    await prompt(session, "please [hello]")
    await tape.idle(session.id, 1, PATIENT)
    await baton.kill()
    const gone = Date.now() + 10_000
    while (processes(baton.directory).length > 0 && Date.now() < gone) await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual(processes(baton.directory), [])
    await baton.begin()
  })
})
