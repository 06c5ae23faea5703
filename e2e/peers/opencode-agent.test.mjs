// OpenCode as an agent behind Baton: the real `opencode serve`, started by Baton, with the scripted model behind it. One
// busy and one idle for each turn, whatever OpenCode itself says; files really changed; and no process left.

import assert from "node:assert/strict"
import { existsSync } from "node:fs"
import { readFile, rm, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { Baton } from "../support/server.mjs"
import { Model } from "./support/model.mjs"
import { createWorld, environment, opencode } from "./support/peers.mjs"
import { assertWhole, gone, kinds, Person, processes, said, tools } from "./support/person.mjs"

const MODEL = { providerID: "opencode-agent", modelID: "default" }
// What is on the command line of a server that Baton has started.
const SERVES = "serve\0--hostname"

async function startBaton(model) {
  const world = await createWorld(model)
  const [program] = opencode()
  const agents = { "opencode-agent": { command: [program], environment: environment(world), idle_seconds: 600 } }
  await writeFile(path.join(world.project, "baton.json"), JSON.stringify({ agents }))
  return Baton.start({ world })
}

describe("OpenCode as an agent", () => {
  let model, baton, person
  const call = (...args) => person.call(...args)
  const turn = (...args) => person.turn(...args)
  const running = () => processes(baton.world, SERVES)
  before(async () => {
    model = await Model.start()
    baton = await startBaton(model)
    person = new Person(baton, MODEL)
  })
  after(async () => {
    await baton?.stop()
    if (baton) assert.deepEqual(running(), [], "no process is left")
    await model?.stop()
  })

  test("it is listed as a provider and as an agent with its abilities", async () => {
    const { providers } = await call("GET", "/config/providers")
    const provider = providers.find(({ id }) => id === "opencode-agent")
    assert.deepEqual(Object.keys(provider.models), ["default"])
    const agents = await call("GET", "/agent")
    const agent = agents.find(({ name }) => name === "opencode-agent")
    assert.deepEqual(agent.model, MODEL)
    assert.deepEqual([agent.external.questions, agent.external.continuation], [true, true])
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
      const asked = await turn("please [permission]", { acts: person.replies(reply) })
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

  test("a turn goes on while its todo list is not finished", async () => {
    const finished = await turn("please [unfinished]")
    assertWhole(finished)
    assert.equal(said(finished.parts), "Planned.|All done.")
    assert.equal(finished.events.filter(({ type }) => type === "continuation.started").length, 1)
    const todos = await call("GET", `/session/${finished.session.id}/todo`)
    assert.deepEqual(todos.map(({ status }) => status), ["completed"])
  })

  test("a turn that gets nowhere is left alone, and says why", async () => {
    const stuck = await turn("please [open]")
    assertWhole(stuck)
    const [stopped, ...more] = stuck.events.filter(({ type }) => type === "continuation.stopped")
    assert.deepEqual([stopped.properties.reason, more.length], ["stagnant", 0])
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
    const held = await turn("please [hold]", { acts: person.stops() })
    model.release()
    assertWhole(held, "aborted")
    const next = await turn("please [hello]", { session: held.session })
    assertWhole(next)
  })

  test("one process serves many turns, and a conversation goes on after a restart", async () => {
    const first = await turn("please [hello]")
    const [process] = running()
    assert.equal(running().length, 1)
    await turn("please [read]", { session: first.session })
    assert.deepEqual(running(), [process])
    await baton.shutdown()
    assert.deepEqual(running(), [], "it ended with the server")
    await baton.begin()
    const calls = model.calls.length
    const third = await turn("please [hello]", { session: first.session })
    assertWhole(third)
    const said = JSON.stringify(model.calls.slice(calls))
    assert.ok(said.includes("please [read]"), "it remembers what was said before")
  })

  test("a server that is killed leaves no process", async () => {
    await turn("please [hello]")
    assert.equal(running().length, 1)
    await baton.kill()
    await gone(baton.world, SERVES)
    await baton.begin()
  })
})
