// The tests that run with every external agent. Tests of one agent only are in that agent's file.

import assert from "node:assert/strict"
import { existsSync } from "node:fs"
import { readFile, rm, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, test } from "node:test"
import { assertWhole, gone, idles, kinds, User, present, processes, said, tools } from "./user.mjs"

// A rule that asks about every command, whatever the agent itself would decide.
const ASK = [{ permission: "bash", pattern: "*", action: "ask" }]

// A user of an agent: `start` starts the model and a server with the agent, `provider` is the agent's provider id, and
// `words` occur on the command line of its processes.
export function meet({ provider, words, start }) {
  const it = { provider, running: () => processes(it.baton.world, words) }
  it.none = () => gone(it.baton.world, words)
  it.turn = (...args) => it.user.turn(...args)
  before(async () => {
    Object.assign(it, await start())
    it.user = new User(it.baton, { providerID: provider, modelID: "default" })
    it.readme = path.join(it.baton.world.project, "README.md")
    it.text = await readFile(it.readme, "utf8")
  })
  after(async () => {
    await it.baton?.stop()
    if (it.baton) assert.deepEqual(it.running(), [], "no process is left")
    await it.model?.stop()
  })
  return it
}

// Marks the command line of a command that runs until it is ended.
const STALLED = "4242"

// More than the tests leave idle, so that no test ends the process of another.
export const LIMITS = { idle_agents: 64 }

// The tests. `say` turns the name of a scenario of the model into a prompt, `tools` are the agent's tools for reading and
// editing, and `compacts` is true if the agent can compact its conversation on request.
export function scenes(it, { say = (name) => `please [${name}]`, tools: used, edited, compacts = false }) {
  const { provider, turn } = it

  test("it is listed as a provider and as an agent", async () => {
    const { providers } = await it.user.call("GET", "/config/providers")
    assert.ok(providers.some(({ id }) => id === provider), JSON.stringify(providers.map(({ id }) => id)))
    const agents = await it.user.call("GET", "/agent")
    assert.ok(agents.some(({ name }) => name === provider), JSON.stringify(agents.map(({ name }) => name)))
  })

  test("it reads and edits, and is idle once", async () => {
    await writeFile(it.readme, it.text)
    const changed = await turn(say("edit"), { acts: it.user.replies("once") })
    assertWhole(changed)
    assert.deepEqual(tools(changed.parts), used.map((tool) => `${tool}:completed`))
    assert.match(await readFile(it.readme, "utf8"), edited)
  })

  for (const [reply, reason, state] of [["once", "completed", "completed"], ["reject", "blocked", "error"]]) {
    test(`a permission that is answered with ${reply}`, async () => {
      const file = path.join(it.baton.world.project, "asked.txt")
      await rm(file, { force: true })
      const asked = []
      const answer = ({ properties: { id, permission, patterns } }) => {
        assert.ok(!existsSync(file), "nothing happens before the user answers")
        asked.push([permission, ...patterns])
        return it.user.call("POST", `/permission/${id}/reply`, { reply })
      }
      const session = await it.user.create({ permission: ASK })
      const ended = await turn(say("permission"), { session, acts: { "permission.asked": answer } })
      assertWhole(ended, reason)
      assert.deepEqual(asked, [["bash", "touch asked.txt"]])
      assert.deepEqual(tools(ended.parts), [`bash:${state}`])
      assert.equal(existsSync(file), reply === "once")
      if (reply === "once") return
      const log = await readFile(path.join(it.baton.world.data, "log/baton.log"), "utf8")
      const lines = log.split("\n").filter(Boolean).map((line) => JSON.parse(line).fields)
      const refused = lines.filter(({ session, message }) => session === ended.session.id && /did not allow/.test(message))
      assert.deepEqual(refused.map(({ tool }) => tool), ["bash"])
    })
  }

  test("an abort stops it, and the conversation continues", async () => {
    const held = await turn(say("hold"), { acts: it.user.stops() })
    it.model.release()
    assertWhole(held, "aborted")
    const next = await turn(say("hello"), { session: held.session })
    assert.deepEqual(kinds(next.statuses), ["busy", "idle"])
    assert.equal(next.statuses.at(-1).reason, "completed")
    assert.match(said(next.parts), /Hello from the scripted model\.$/)
  })

  test("an abort in a command ends the command before the session is idle", async () => {
    let stopped
    const stop = async (session) => {
      await present(it.baton.world, STALLED)
      await it.user.call("POST", `/session/${session.id}/abort`)
    }
    const look = ({ properties: { part } }, session) => {
      // The stream continues meanwhile, because the agent may still request permission for the command.
      if (part.type === "tool" && part.state.status === "running") stopped ??= stop(session)
    }
    const acts = { ...it.user.replies("once"), "message.part.updated": look }
    const ended = await turn(say("stall"), { acts })
    assert.deepEqual(processes(it.baton.world, STALLED), [], "the command is dead")
    await stopped
    assertWhole(ended, "aborted")
  })

  test("a prompt during a turn is answered, and both answers are complete", async () => {
    let sent
    const send = async (session) => {
      await it.user.prompt(session, say("hello"))
      it.model.release()
    }
    const ended = await turn(say("hold"), { acts: { "message.part.delta": (_, session) => (sent ??= send(session)) } })
    assertWhole(ended)
    assert.match(said(ended.parts), /^I begin.*(wait|until now\.|and end\.)\|Hello from the scripted model\.$/)
  })

  // The prompt joins the turn or begins the next one. Either way the agent must not begin a turn by itself for it.
  for (const [moment, isReached] of [
    ["the last text", ({ type, time }) => type === "text" && time?.end],
    ["the last step", ({ type }) => type === "step-finish"],
  ]) {
    test(`a prompt after ${moment} of a turn is answered once`, async () => {
      let sent
      const acts = {
        "message.part.delta": () => it.model.release(),
        "message.part.updated": ({ properties: { part } }, session) => {
          if (isReached(part)) sent ??= it.user.prompt(session, say("hello"))
        },
      }
      const { session } = await turn(say("hold"), { acts })
      await sent
      const { messages, parts } = await turn(say("hello"), { session })
      assert.equal(messages.filter(({ info }) => info.role === "user").length, 3, "three prompts, and none of the agent")
      assert.match(said(parts), /^I begin[^H]*\|Hello from the scripted model\.\|Hello from the scripted model\.$/)
    })
  }

  test("its prompt contains the turns of another agent in the session", async () => {
    const { session } = await turn(`sassafras, ${say("hello")}`)
    const other = new User(it.baton, { providerID: "demo", modelID: "simple" })
    await other.turn("juniper", { session })
    const calls = it.model.calls.length
    const back = await turn(say("hello"), { session })
    assertWhole(back)
    assert.match(JSON.stringify(it.model.calls.slice(calls)), /juniper/)
  })

  test("a reverted turn is no longer in its conversation", async () => {
    const { session } = await turn(`sassafras, ${say("hello")}`)
    const second = await turn(`juniper, ${say("hello")}`, { session })
    const prompt = second.messages.findLast(({ info }) => info.role === "user")
    await it.user.call("POST", `/session/${session.id}/revert`, { messageID: prompt.info.id })
    const calls = it.model.calls.length
    assertWhole(await turn(say("hello"), { session }))
    const heard = JSON.stringify(it.model.calls.slice(calls))
    assert.match(heard, /sassafras/)
    assert.doesNotMatch(heard, /juniper/)
  })

  test("a command line of the user runs, and the next prompt contains it", async () => {
    const { session } = await turn(say("hello"))
    const file = path.join(it.baton.world.project, "shell.out")
    await rm(file, { force: true })
    const shell = { agent: provider, command: "echo juniper > shell.out" }
    await it.user.call("POST", `/session/${session.id}/shell`, shell)
    assert.equal(await readFile(file, "utf8"), "juniper\n")
    const calls = it.model.calls.length
    assertWhole(await turn(say("hello"), { session }))
    assert.match(JSON.stringify(it.model.calls.slice(calls)), /echo juniper/)
  })

  test(`a summary on request ${compacts ? "compacts the conversation" : "is refused"}`, async () => {
    const { session } = await turn(say("hello"))
    // Claude Code does not compact a conversation of one answer.
    for (let more = 0; more < 2; more += 1) await turn(say("hello"), { session })
    const body = { providerID: provider, modelID: "default" }
    const ended = await it.user.turnOf(session, "/summarize", body)
    assert.deepEqual(kinds(ended.statuses), ["busy", "idle"])
    assert.equal(ended.statuses.at(-1).reason, compacts ? "completed" : "error")
    assert.equal(ended.events.some(({ type }) => type === "session.compacted"), compacts, said(ended.parts))
  })

  test("two turns share a process and its memory", async () => {
    const first = await turn(`sassafras, ${say("hello")}`)
    const before = it.running()
    const calls = it.model.calls.length
    const second = await turn(say("hello"), { session: first.session })
    assertWhole(second)
    assert.deepEqual(it.running(), before)
    assert.match(JSON.stringify(it.model.calls.slice(calls)), /sassafras/)
  })

  test("a refusal of its model ends the turn as an error, with one idle", async () => {
    const refused = await turn(say("refused"))
    assertWhole(refused, "error")
    const failed = refused.events.find(({ type }) => type === "session.error")
    assert.match(failed.properties.error.data.message, /scripted refusal/)
  })

  test("a conversation continues after a restart of the server, and no earlier process is left", async () => {
    const first = await turn(`sassafras, ${say("hello")}`)
    await it.baton.shutdown()
    assert.deepEqual(it.running(), [], "it ended with the server")
    await it.baton.begin()
    const calls = it.model.calls.length
    const second = await turn(say("hello"), { session: first.session })
    assertWhole(second)
    assert.match(JSON.stringify(it.model.calls.slice(calls)), /sassafras/, "it remembers what was said before")
  })

  test("a server that is killed leaves no process", async () => {
    await turn(say("hello"))
    assert.notDeepEqual(it.running(), [])
    await it.baton.kill()
    await it.none()
    await it.baton.begin()
  })
}

// The tests with subagents that are child sessions; `told` is the prompt that the child session shows.
export function family(it, { say = (name) => `please [${name}]`, told }) {
  const { turn } = it
  const yes = () => it.user.replies("once")

  test("a subagent is a child session, and idle before its parent", async () => {
    const ended = await turn(say("hello_below"), { acts: yes() })
    assertWhole(ended)
    assert.equal(said(ended.parts), "It is done.")
    const [child, ...others] = await it.user.children(ended)
    assert.deepEqual(others, [])
    assertWhole(child)
    assert.equal(said(child.parts), "Hello from the scripted model.")
    assert.equal(child.parts[0].text, told)
    const task = ended.parts.find(({ tool }) => tool === "task")
    assert.equal(task.state.metadata.sessionId, child.session.id)
    assert.deepEqual(idles(ended), [child.session.id, ended.session.id])
  })

  for (const [reply, reason] of [["once", "completed"], ["reject", "blocked"]]) {
    test(`a permission request of a subagent belongs to its session: ${reply}`, async () => {
      const file = path.join(it.baton.world.project, "asked.txt")
      await rm(file, { force: true })
      const asked = []
      const answer = ({ properties: { id, permission, sessionID } }) => {
        if (permission === "bash") asked.push(sessionID)
        const body = { reply: permission === "bash" ? reply : "once" }
        return it.user.call("POST", `/permission/${id}/reply`, body)
      }
      const session = await it.user.create({ permission: ASK })
      const ended = await turn(say("permission_below"), { session, acts: { "permission.asked": answer } })
      assertWhole(ended)
      const [child] = await it.user.children(ended)
      assertWhole(child, reason)
      assert.deepEqual(asked, [child.session.id])
      assert.equal(existsSync(file), reply === "once")
    })
  }

  test("an abort stops the session and its subagent, and the conversation continues", async () => {
    const held = await turn(say("hold_below"), { acts: { ...yes(), ...it.user.stops({ below: true }) } })
    it.model.release()
    assertWhole(held, "aborted")
    const [child] = await it.user.children(held)
    assertWhole(child, "aborted")
    const next = await turn(say("hello"), { session: held.session })
    assert.equal(next.statuses.at(-1).reason, "completed")
  })
}
