// What must be true of every agent that Baton drives, whoever wrote it: the same scenes for each, so that none is missing
// one. What is special about an agent is tested in its own file.

import assert from "node:assert/strict"
import { existsSync } from "node:fs"
import { readFile, rm, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, test } from "node:test"
import { assertWhole, gone, idles, kinds, Person, present, processes, said, tools } from "./person.mjs"

// Commands are asked about, whatever the agent itself would say.
const ASK = [{ permission: "bash", pattern: "*", action: "ask" }]

// Somebody in front of an agent: `start` makes the model and a server that knows the agent, `provider` is its name, `words`
// are on the command line of its processes.
export function meet({ provider, words, start }) {
  const it = { provider, running: () => processes(it.baton.world, words) }
  it.none = () => gone(it.baton.world, words)
  it.turn = (...args) => it.person.turn(...args)
  before(async () => {
    Object.assign(it, await start())
    it.person = new Person(it.baton, { providerID: provider, modelID: "default" })
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

// On the command line of a command that runs until it is ended, and on no other.
const STALLED = "4242"

// More than the scenes leave idle, so that none of them ends the process of another.
export const LIMITS = { idle_agents: 64 }

// The scenes. `say` makes a prompt of the name of a scenario of the model's; `tools` are those that read and edit; `compacts`
// says whether the agent can compact its conversation on request.
export function scenes(it, { say = (name) => `please [${name}]`, tools: used, edited, compacts = false }) {
  const { provider, turn } = it

  test("it is listed as a provider and as an agent", async () => {
    const { providers } = await it.person.call("GET", "/config/providers")
    assert.ok(providers.some(({ id }) => id === provider), JSON.stringify(providers.map(({ id }) => id)))
    const agents = await it.person.call("GET", "/agent")
    assert.ok(agents.some(({ name }) => name === provider), JSON.stringify(agents.map(({ name }) => name)))
  })

  test("it reads and edits, and is idle once", async () => {
    await writeFile(it.readme, it.text)
    const changed = await turn(say("edit"), { acts: it.person.replies("once") })
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
        assert.ok(!existsSync(file), "nothing happens before somebody says so")
        asked.push([permission, ...patterns])
        return it.person.call("POST", `/permission/${id}/reply`, { reply })
      }
      const session = await it.person.create({ permission: ASK })
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

  test("an abort stops it, and the conversation goes on", async () => {
    const held = await turn(say("hold"), { acts: it.person.stops() })
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
      await it.person.call("POST", `/session/${session.id}/abort`)
    }
    const look = ({ properties: { part } }, session) => {
      // The stream goes on meanwhile, because the agent may still have to be allowed to run the command.
      if (part.type === "tool" && part.state.status === "running") stopped ??= stop(session)
    }
    const acts = { ...it.person.replies("once"), "message.part.updated": look }
    const ended = await turn(say("stall"), { acts })
    assert.deepEqual(processes(it.baton.world, STALLED), [], "the command is dead")
    await stopped
    assertWhole(ended, "aborted")
  })

  test("a prompt that is sent meanwhile is answered as well, and both answers are whole", async () => {
    let sent
    const send = async (session) => {
      await it.person.prompt(session, say("hello"))
      it.model.release()
    }
    const ended = await turn(say("hold"), { acts: { "message.part.delta": (_, session) => (sent ??= send(session)) } })
    assertWhole(ended)
    assert.match(said(ended.parts), /^I begin.*(wait|until now\.|and end\.)\|Hello from the scripted model\.$/)
  })

  test("it is told what another agent has done in the session meanwhile", async () => {
    const { session } = await turn(`sassafras, ${say("hello")}`)
    const other = new Person(it.baton, { providerID: "demo", modelID: "simple" })
    await other.turn("juniper", { session })
    const calls = it.model.calls.length
    const back = await turn(say("hello"), { session })
    assertWhole(back)
    assert.match(JSON.stringify(it.model.calls.slice(calls)), /juniper/)
  })

  test("what was reverted is not in its conversation any more", async () => {
    const { session } = await turn(`sassafras, ${say("hello")}`)
    const second = await turn(`juniper, ${say("hello")}`, { session })
    const prompt = second.messages.findLast(({ info }) => info.role === "user")
    await it.person.call("POST", `/session/${session.id}/revert`, { messageID: prompt.info.id })
    const calls = it.model.calls.length
    assertWhole(await turn(say("hello"), { session }))
    const heard = JSON.stringify(it.model.calls.slice(calls))
    assert.match(heard, /sassafras/)
    assert.doesNotMatch(heard, /juniper/)
  })

  test("a command line of the user runs, and the agent hears of it with its next prompt", async () => {
    const { session } = await turn(say("hello"))
    const file = path.join(it.baton.world.project, "shell.out")
    await rm(file, { force: true })
    const shell = { agent: provider, command: "echo juniper > shell.out" }
    await it.person.call("POST", `/session/${session.id}/shell`, shell)
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
    const ended = await it.person.errand(session, "/summarize", body)
    assert.deepEqual(kinds(ended.statuses), ["busy", "idle"])
    assert.equal(ended.statuses.at(-1).reason, compacts ? "completed" : "error")
    assert.equal(ended.events.some(({ type }) => type === "session.compacted"), compacts, said(ended.parts))
  })

  test("two turns share a process, and it remembers", async () => {
    const first = await turn(`sassafras, ${say("hello")}`)
    const before = it.running()
    const calls = it.model.calls.length
    const second = await turn(say("hello"), { session: first.session })
    assertWhole(second)
    assert.deepEqual(it.running(), before)
    assert.match(JSON.stringify(it.model.calls.slice(calls)), /sassafras/)
  })

  test("a refusal of its model is the error of the turn, with one idle", async () => {
    const refused = await turn(say("refused"))
    assertWhole(refused, "error")
    const failed = refused.events.find(({ type }) => type === "session.error")
    assert.match(failed.properties.error.data.message, /scripted refusal/)
  })

  test("a conversation goes on after a restart of the server, and no process is left of before", async () => {
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

// The scenes with a subagent that has a session of its own; `told` is what the session says that it was told.
export function family(it, { say = (name) => `please [${name}]`, told }) {
  const { turn } = it
  const yes = () => it.person.replies("once")

  test("a subagent has a session of its own, and is idle before the session", async () => {
    const ended = await turn(say("hello_below"), { acts: yes() })
    assertWhole(ended)
    assert.equal(said(ended.parts), "It is done.")
    const [child, ...others] = await it.person.children(ended)
    assert.deepEqual(others, [])
    assertWhole(child)
    assert.equal(said(child.parts), "Hello from the scripted model.")
    assert.equal(child.parts[0].text, told)
    const task = ended.parts.find(({ tool }) => tool === "task")
    assert.equal(task.state.metadata.sessionId, child.session.id)
    assert.deepEqual(idles(ended), [child.session.id, ended.session.id])
  })

  for (const [reply, reason] of [["once", "completed"], ["reject", "blocked"]]) {
    test(`a permission that a subagent wants is asked in its session: ${reply}`, async () => {
      const file = path.join(it.baton.world.project, "asked.txt")
      await rm(file, { force: true })
      const asked = []
      const answer = ({ properties: { id, permission, sessionID } }) => {
        if (permission === "bash") asked.push(sessionID)
        const body = { reply: permission === "bash" ? reply : "once" }
        return it.person.call("POST", `/permission/${id}/reply`, body)
      }
      const session = await it.person.create({ permission: ASK })
      const ended = await turn(say("permission_below"), { session, acts: { "permission.asked": answer } })
      assertWhole(ended)
      const [child] = await it.person.children(ended)
      assertWhole(child, reason)
      assert.deepEqual(asked, [child.session.id])
      assert.equal(existsSync(file), reply === "once")
    })
  }

  test("an abort stops the session and its subagent, and the conversation goes on", async () => {
    const held = await turn(say("hold_below"), { acts: { ...yes(), ...it.person.stops({ below: true }) } })
    it.model.release()
    assertWhole(held, "aborted")
    const [child] = await it.person.children(held)
    assertWhole(child, "aborted")
    const next = await turn(say("hello"), { session: held.session })
    assert.equal(next.statuses.at(-1).reason, "completed")
  })
}
