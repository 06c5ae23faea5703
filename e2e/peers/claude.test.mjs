// The real Claude Code behind Baton: the same events as from any other agent, one idle for each turn, and no process
// that stays longer than it should.

import assert from "node:assert/strict"
import { readFile, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { Baton } from "../support/server.mjs"
import { listen } from "../support/stream.mjs"
import { within } from "../support/wait.mjs"
import { Anthropic } from "./support/anthropic.mjs"
import { createWorld } from "./support/peers.mjs"
import { gone, processes } from "./support/person.mjs"

const PROGRAM = process.env.CLAUDE_BIN
const TURN_MS = 60_000

// Nothing is fetched, reported or updated.
const environment = (model) => ({
  ANTHROPIC_BASE_URL: model.url,
  ANTHROPIC_API_KEY: "not-a-key",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_AUTOUPDATER: "1",
  DISABLE_TELEMETRY: "1",
  DISABLE_ERROR_REPORTING: "1",
})

describe("Claude Code", { skip: !PROGRAM && "CLAUDE_BIN is not set: run this with `cargo xtask peers`" }, () => {
  let model, baton, readme
  const running = () => processes(baton.world, PROGRAM)
  before(async () => {
    model = await Anthropic.start()
    const world = await createWorld(model)
    const agents = { "claude-code": { command: [PROGRAM], environment: environment(model) } }
    await writeFile(path.join(world.project, "baton.json"), JSON.stringify({ agents }))
    readme = path.join(world.project, "README.md")
    baton = await Baton.start({ world })
  })
  after(async () => {
    await baton?.stop()
    await model?.stop()
  })

  const call = async (method, target, body) => {
    const headers = { "content-type": "application/json" }
    const response = await baton.fetch(target, { method, headers, body: JSON.stringify(body) })
    const text = await response.text()
    assert.ok(response.ok, `${method} ${target}: ${response.status} ${text}\n${baton.stderr}`)
    return text ? JSON.parse(text) : undefined
  }
  const create = () => call("POST", "/session", { title: "Claude Code" })

  // One turn: its events and those of all sessions, with what is done at some of them.
  async function watched(session, text, acts = {}) {
    const stream = await listen(baton)
    try {
      const parts = [{ type: "text", text }]
      const wanted = { providerID: "claude-code", modelID: "default" }
      await call("POST", `/session/${session.id}/prompt_async`, { parts, agent: "claude-code", model: wanted })
      for await (const event of stream.tape.follow({ ms: TURN_MS })) {
        await acts[event.type]?.(event.properties)
        if (event.type === "session.idle" && event.properties.sessionID === session.id) break
      }
      return { events: stream.tape.of(session.id), all: [...stream.tape.events] }
    } finally {
      await stream.close()
    }
  }

  const turn = async (session, text, acts) => (await watched(session, text, acts)).events
  const reply = (reply) => ({ "permission.asked": ({ id }) => call("POST", `/permission/${id}/reply`, { reply }) })
  const idles = (events) => events.filter(({ type }) => type === "session.idle").length
  const ends = (events) =>
    events
      .filter(({ type, properties }) => type === "session.status" && properties.status.type === "idle")
      .map(({ properties }) => properties.status.reason)
  const reason = (events) => ends(events).at(-1)
  const tools = async (session) =>
    (await call("GET", `/session/${session.id}/message`))
      .flatMap(({ parts }) => parts)
      .filter(({ type }) => type === "tool")
      .map(({ tool, state }) => `${tool} ${state.status}`)

  test("is listed with its models", async () => {
    const { providers } = await call("GET", "/config/providers")
    assert.ok(providers.some(({ id }) => id === "claude-code"), JSON.stringify(providers.map(({ id }) => id)))
  })

  test("reads and edits when it is allowed to", async () => {
    const session = await create()
    const events = await turn(session, `please [[edit]] ${readme}`, reply("once"))
    assert.equal(idles(events), 1)
    assert.equal(reason(events), "completed")
    assert.deepEqual(await tools(session), ["read completed", "edit completed"])
    assert.match(await readFile(readme, "utf8"), /\nAdded\.\n$/)
    assert.equal(events.filter(({ type }) => type === "permission.asked").length, 1)
  })

  test("does not edit when it is refused", async () => {
    await writeFile(readme, "End of file.\n")
    const session = await create()
    const events = await turn(session, `please [[edit]] ${readme}`, reply("reject"))
    assert.equal(idles(events), 1)
    assert.equal(reason(events), "blocked")
    assert.deepEqual(await tools(session), ["read completed", "edit error"])
    assert.equal(await readFile(readme, "utf8"), "End of file.\n")
  })

  test("goes on within the turn while its list is not finished", async () => {
    const session = await create()
    const events = await turn(session, "please [[unfinished]]", reply("once"))
    assert.deepEqual([idles(events), reason(events)], [1, "completed"])
    assert.equal(events.filter(({ type }) => type === "continuation.started").length, 1)
    const todos = await call("GET", `/session/${session.id}/todo`)
    assert.deepEqual(todos.map(({ content, status }) => `${content} ${status}`), ["Work completed"])
  })

  test("stops when it is told to, and goes on in the same process", async () => {
    const session = await create()
    let stopped
    const abort = () => (stopped ??= call("POST", `/session/${session.id}/abort`))
    const events = await turn(session, "please [[hold]]", { "message.part.delta": abort })
    await stopped
    assert.equal(idles(events), 1)
    assert.equal(reason(events), "aborted")
    const again = await turn(session, "please [[hello]]")
    assert.deepEqual([idles(again), reason(again)], [1, "completed"])
  })

  test("answers two prompts with one process", async () => {
    const session = await create()
    await turn(session, "please [[hello]]")
    const before = running()
    const events = await turn(session, "again [[hello]]")
    assert.equal(idles(events), 1)
    assert.deepEqual(running(), before)
  })

  // The child sessions of a session, each with how its turns ended.
  const children = async (session, all) => {
    const found = await call("GET", `/session/${session.id}/children`)
    return found.map((child) => ({ ...child, ends: ends(all.filter(({ properties }) => properties.sessionID === child.id)) }))
  }
  const task = async (session) =>
    (await call("GET", `/session/${session.id}/message`)).flatMap(({ parts }) => parts).find(({ tool }) => tool === "task")

  test("has a subagent in a session of its own", async () => {
    const session = await create()
    const { events, all } = await watched(session, "please [[task]]", reply("once"))
    assert.deepEqual([idles(events), reason(events)], [1, "completed"])
    assert.deepEqual(await tools(session), ["task completed"])
    const [child, ...others] = await children(session, all)
    assert.deepEqual([others.length, child.ends], [0, ["completed"]])
    assert.equal((await task(session)).state.metadata.sessionId, child.id)
    const said = (await call("GET", `/session/${child.id}/message`)).flatMap(({ parts }) => parts)
    const texts = said.filter(({ type }) => type === "text").map(({ text }) => text)
    assert.deepEqual(texts, ["Say it [[hello]]", "Hello from the scripted model."])
  })

  for (const [answer, content, ended] of [
    ["once", /\nAdded\.\n$/, "completed"],
    ["reject", /^End of file\.\n$/, "blocked"],
  ]) {
    test(`a permission that a subagent wants is the subagent's: ${answer}`, async () => {
      await writeFile(readme, "End of file.\n")
      const session = await create()
      const asked = []
      const acts = { "permission.asked": (it) => (asked.push(it), call("POST", `/permission/${it.id}/reply`, { reply: it.permission === "edit" ? answer : "once" })) }
      const { events, all } = await watched(session, `please [[edit_below]] ${readme}`, acts)
      assert.equal(idles(events), 1)
      const [child] = await children(session, all)
      assert.deepEqual(child.ends, [ended])
      const edit = asked.find(({ permission }) => permission === "edit")
      assert.equal(edit.sessionID, child.id)
      assert.match(await readFile(readme, "utf8"), content)
    })
  }

  test("a subagent in the background keeps the session busy", async () => {
    const session = await create()
    const { events, all } = await watched(session, "please [[background]]", reply("once"))
    assert.deepEqual([idles(events), reason(events)], [1, "completed"])
    const [child] = await children(session, all)
    assert.deepEqual(child.ends, ["completed"])
    const idle = (id) => all.findIndex(({ type, properties }) => type === "session.idle" && properties.sessionID === id)
    assert.ok(idle(child.id) < idle(session.id), "the child is idle before its parent")
  })

  test("a session that is stopped stops its subagent", async () => {
    const session = await create()
    let stopped
    const acts = {
      "session.status": ({ sessionID, status }) => {
        if (sessionID !== session.id && status.type === "busy") stopped ??= call("POST", `/session/${session.id}/abort`)
      },
    }
    const { events, all } = await watched(session, "please [[hold_below]]", acts)
    await stopped
    assert.deepEqual([idles(events), reason(events)], [1, "aborted"])
    const [child] = await children(session, all)
    assert.deepEqual(child.ends, ["aborted"])
  })

  test("goes on with a conversation after the server was stopped, and nothing is left meanwhile", async () => {
    const session = await create()
    await turn(session, "remember the word sassafras [[hello]]")
    await baton.shutdown()
    await gone(baton.world, PROGRAM)
    await baton.begin()
    const events = await turn(session, "please [[hello]]")
    assert.deepEqual([idles(events), reason(events)], [1, "completed"])
    const heard = JSON.stringify(model.calls.at(-1).messages)
    assert.match(heard, /sassafras/)
  })

  test("does not outlive a server that is killed", async () => {
    const session = await create()
    await turn(session, "please [[hello]]")
    assert.ok(running().length)
    await baton.kill()
    await gone(baton.world, PROGRAM)
    await baton.begin()
  })
})
