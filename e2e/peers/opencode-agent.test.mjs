// OpenCode as an agent behind Baton: the real `opencode serve`, started by Baton, with the scripted model behind it. One
// busy and one idle for each turn, whatever OpenCode itself says; files really changed; and no process left.

import assert from "node:assert/strict"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { readFile, rm, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { listen } from "../support/stream.mjs"
import { Baton } from "../support/server.mjs"
import { within } from "../support/wait.mjs"
import { Model } from "./support/model.mjs"
import { createWorld, environment, opencode } from "./support/peers.mjs"

const JSON_BODY = { "content-type": "application/json" }
const MODEL = { providerID: "opencode-agent", modelID: "default" }
// The first turn waits for OpenCode to start.
const TURN_MS = 90_000

// Processes that run OpenCode in this world.
function processes(world) {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((id) => {
      try {
        const isOurs = readFileSync(`/proc/${id}/environ`, "utf8").includes(world.home)
        return isOurs && readFileSync(`/proc/${id}/cmdline`, "utf8").includes("serve\0--hostname")
      } catch {
        return false
      }
    })
}

async function startBaton(model) {
  const world = await createWorld(model)
  const [program] = opencode()
  const agents = { "opencode-agent": { command: [program], environment: environment(world), idle_seconds: 600 } }
  await writeFile(path.join(world.project, "baton.json"), JSON.stringify({ agents }))
  return Baton.start({ world })
}

describe("OpenCode as an agent", () => {
  let model, baton
  before(async () => {
    model = await Model.start()
    baton = await startBaton(model)
  })
  after(async () => {
    const { world } = baton
    await baton?.stop()
    assert.deepEqual(processes(world), [], "no process is left")
    await model?.stop()
  })

  const call = async (method, target, body) => {
    const response = await baton.fetch(target, { method, headers: JSON_BODY, body: JSON.stringify(body) })
    const text = await response.text()
    assert.ok(response.ok, `${method} ${target}: ${response.status} ${text}`)
    return text ? JSON.parse(text) : undefined
  }

  const prompt = (session, text) =>
    call("POST", `/session/${session.id}/prompt_async`, { model: MODEL, parts: [{ type: "text", text }] })

  // A turn of a session; `acts` says what to do at which kind of event.
  async function turn(text, { session, acts = {} } = {}) {
    session ??= await call("POST", "/session", {})
    const stream = await listen(baton)
    try {
      await prompt(session, text)
      const events = []
      const over = (async () => {
        for await (const event of stream.tape.follow({ ms: TURN_MS })) {
          events.push(event)
          await acts[event.type]?.(event, session)
          if (event.type === "session.idle" && event.properties.sessionID === session.id) return
        }
      })()
      await within(TURN_MS, over, `the turn of ${text}`, () => baton.stderr)
      const messages = await call("GET", `/session/${session.id}/message`)
      const own = events.filter(({ properties }) => properties.sessionID === session.id)
      const statuses = own.filter(({ type }) => type === "session.status").map(({ properties }) => properties.status)
      const parts = messages.flatMap(({ parts }) => parts)
      return { session, events: own, statuses, messages, parts }
    } finally {
      await stream.close()
    }
  }

  const kinds = (statuses) => statuses.map(({ type }) => type)
  const said = (parts) => parts.filter(({ type, time }) => type === "text" && time).map(({ text }) => text).join("|")
  const tools = (parts) => parts.filter(({ type }) => type === "tool").map(({ tool, state }) => `${tool}:${state.status}`)

  function assertWhole({ statuses, messages, parts }, reason = "completed") {
    assert.deepEqual(kinds(statuses), ["busy", "idle"], "one busy, one idle")
    assert.equal(statuses.at(-1).reason, reason)
    const steps = messages.map(({ info }) => info).filter(({ role }) => role === "assistant")
    assert.ok(steps.every(({ time }) => time.completed), "every message is closed")
    for (const { type, state, tool } of parts) {
      if (type === "tool") assert.ok(["completed", "error"].includes(state.status), `${tool} is closed`)
    }
  }

  test("it is listed as a provider and as an agent with its abilities", async () => {
    const { providers } = await call("GET", "/config/providers")
    const provider = providers.find(({ id }) => id === "opencode-agent")
    assert.deepEqual(Object.keys(provider.models), ["default"])
    const agents = await call("GET", "/agent")
    const agent = agents.find(({ name }) => name === "opencode-agent")
    assert.deepEqual(agent.model, MODEL)
    assert.equal(agent.external.questions, true)
    const { stdout } = await baton.world.run(["agents", "--json"])
    const row = JSON.parse(stdout).find(({ id }) => id === "opencode-agent")
    assert.equal(row.version, process.env.OPENCODE_VERSION)
  })

  test("it says hello, once", async () => {
    const hello = await turn("please [hello]")
    assertWhole(hello)
    assert.equal(said(hello.parts), "Hello from the scripted model.")
  })

  test("it reads and edits, and the change can be taken back", async () => {
    const file = path.join(baton.world.project, "README.md")
    const before = await readFile(file, "utf8")
    const edited = await turn("please [edit]")
    assertWhole(edited)
    assert.deepEqual(tools(edited.parts), ["read:completed", "edit:completed"])
    assert.equal(said(edited.parts), "Changed.")
    assert.match(await readFile(file, "utf8"), /Something new/)
    assert.deepEqual(edited.parts.filter(({ type }) => type === "patch").flatMap(({ files }) => files), [file])
    await call("POST", `/session/${edited.session.id}/revert`, { messageID: edited.messages[0].info.id })
    assert.equal(await readFile(file, "utf8"), before)
  })

  for (const [reply, reason, state] of [["once", "completed", "completed"], ["reject", "blocked", "error"]]) {
    test(`a permission that is answered with ${reply}`, async () => {
      const file = path.join(baton.world.project, "asked.txt")
      await rm(file, { force: true })
      const answer = ({ properties }) => call("POST", `/permission/${properties.id}/reply`, { reply })
      const asked = await turn("please [permission]", { acts: { "permission.asked": answer } })
      assertWhole(asked, reason)
      assert.deepEqual(tools(asked.parts), [`bash:${state}`])
      assert.equal(existsSync(file), reply === "once")
    })
  }

  test("a question", async () => {
    const answer = ({ properties }) => call("POST", `/question/${properties.id}/reply`, { answers: [["Green"]] })
    const asked = await turn("please [question]", { acts: { "question.asked": answer } })
    assertWhole(asked)
    assert.equal(said(asked.parts), "A fine choice.")
  })

  test("a todo list", async () => {
    const planned = await turn("please [todo]")
    assertWhole(planned)
    const todos = await call("GET", `/session/${planned.session.id}/todo`)
    assert.deepEqual(todos.map(({ content }) => content), ["Think", "Work"])
  })

  test("a subagent is a child session", async () => {
    const tasked = await turn("please [task]")
    assertWhole(tasked)
    const children = await call("GET", `/session/${tasked.session.id}/children`)
    assert.equal(children.length, 1)
    const inner = await call("GET", `/session/${children[0].id}/message`)
    assert.deepEqual(tools(inner.flatMap(({ parts }) => parts)), ["read:completed"])
  })

  test("a refusal of its model is the error of the turn, with one idle", async () => {
    const refused = await turn("please [refused]")
    assertWhole(refused, "error")
    assert.match(JSON.stringify(refused.messages.at(-1).info.error), /scripted refusal/)
  })

  test("a retry is told", async () => {
    const again = await turn("please [again]")
    assert.deepEqual(kinds(again.statuses), ["busy", "retry", "busy", "idle"])
    assert.equal(said(again.parts), "At last.")
  })

  test("an abort stops it, and the session can be used again", async () => {
    let stopped = false
    const stop = async (_, session) => {
      if (stopped) return
      stopped = true
      await call("POST", `/session/${session.id}/abort`)
    }
    const held = await turn("please [hold]", { acts: { "message.part.delta": stop } })
    model.release()
    assertWhole(held, "aborted")
    const next = await turn("please [hello]", { session: held.session })
    assertWhole(next)
  })

  test("one process serves many turns, and a conversation goes on after a restart", async () => {
    const first = await turn("please [hello]")
    const [process] = processes(baton.world)
    assert.equal(processes(baton.world).length, 1)
    await turn("please [read]", { session: first.session })
    assert.deepEqual(processes(baton.world), [process])
    await baton.shutdown()
    assert.deepEqual(processes(baton.world), [], "it ended with the server")
    await baton.begin()
    const calls = model.calls.length
    const third = await turn("please [hello]", { session: first.session })
    assertWhole(third)
    const said = JSON.stringify(model.calls.slice(calls))
    assert.ok(said.includes("please [read]"), "it remembers what was said before")
  })

  test("a server that is killed leaves no process", async () => {
    await turn("please [hello]")
    assert.equal(processes(baton.world).length, 1)
    await baton.kill()
    const gone = async () => {
      while (processes(baton.world).length > 0) await new Promise((resolve) => setTimeout(resolve, 50))
    }
    await within(20_000, gone(), "OpenCode to end with its server")
    await baton.begin()
  })
})
