// An agent that speaks the Agent Client Protocol behind Baton: the real `opencode acp`, started and talked to by Baton, with
// the scripted model behind it. One busy and one idle for each turn; files really changed; and no process left.

import assert from "node:assert/strict"
import { existsSync } from "node:fs"
import { readFile, rm, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { Baton } from "../support/server.mjs"
import { Model } from "./support/model.mjs"
import { createWorld, environment, opencode } from "./support/peers.mjs"
import { assertWhole, gone, kinds, Person, processes, said, tools } from "./support/person.mjs"

const MODEL = { providerID: "acp:opencode", modelID: "default" }
// What is on the command line of an agent that Baton has started.
const SPEAKS = "\0acp\0"

describe("OpenCode over the Agent Client Protocol", () => {
  let model, baton, person
  const turn = (...args) => person.turn(...args)
  const running = () => processes(baton.world, SPEAKS)
  before(async () => {
    model = await Model.start()
    const world = await createWorld(model)
    const acp = { opencode: { command: opencode("acp"), environment: environment(world) } }
    await writeFile(path.join(world.project, "baton.json"), JSON.stringify({ acp }))
    baton = await Baton.start({ world })
    person = new Person(baton, MODEL)
  })
  after(async () => {
    await baton?.stop()
    if (baton) assert.deepEqual(running(), [], "no process is left")
    await model?.stop()
  })

  test("it is listed as a provider and as an agent", async () => {
    const { providers } = await person.call("GET", "/config/providers")
    assert.ok(providers.some(({ id }) => id === MODEL.providerID), JSON.stringify(providers.map(({ id }) => id)))
    const agents = await person.call("GET", "/agent")
    assert.ok(agents.some(({ name }) => name === MODEL.providerID), JSON.stringify(agents.map(({ name }) => name)))
  })

  test("it reads and edits", async () => {
    const file = path.join(baton.world.project, "README.md")
    const edited = await turn("please [edit]")
    assertWhole(edited)
    assert.deepEqual(tools(edited.parts), ["read:completed", "edit:completed"])
    assert.equal(said(edited.parts), "Changed.")
    assert.match(await readFile(file, "utf8"), /Something new/)
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

  // Whether its process is kept depends on how soon it answers.
  test("an abort stops it, and the conversation goes on", async () => {
    const held = await turn("please [hold]", { acts: person.stops() })
    assertWhole(held, "aborted")
    model.release()
    const calls = model.calls.length
    const next = await turn("please [hello]", { session: held.session })
    assert.deepEqual(kinds(next.statuses), ["busy", "idle"])
    assert.equal(next.statuses.at(-1).reason, "completed")
    assert.match(JSON.stringify(model.calls.slice(calls)), /please \[hold\]/, "it remembers what was said before")
  })

  test("two turns share a process, and it remembers", async () => {
    const first = await turn("please [hello]")
    assertWhole(first)
    const before = running()
    const calls = model.calls.length
    const second = await turn("please [read]", { session: first.session })
    assertWhole(second)
    assert.deepEqual(tools(second.parts), ["read:completed"])
    assert.deepEqual(running(), before)
    assert.match(JSON.stringify(model.calls.slice(calls)), /please \[hello\]/)
  })

  test("a subagent is seen as the tool that it works for", async () => {
    const tasked = await turn("please [task]")
    assertWhole(tasked)
    assert.deepEqual(tools(tasked.parts), ["task:completed"])
    assert.equal(said(tasked.parts), "The other one has looked.")
  })

  test("a refusal of its model is the error of the turn, with one idle", async () => {
    const refused = await turn("please [refused]")
    assertWhole(refused, "error")
    assert.match(JSON.stringify(refused.messages.at(-1).info.error), /scripted refusal/)
  })

  test("a conversation goes on after a restart of the server, and no process is left of before", async () => {
    const first = await turn("please [read]")
    await baton.shutdown()
    assert.deepEqual(running(), [], "it ended with the server")
    await baton.begin()
    const calls = model.calls.length
    const second = await turn("please [hello]", { session: first.session })
    assertWhole(second)
    assert.match(JSON.stringify(model.calls.slice(calls)), /please \[read\]/, "it remembers what was said before")
  })

  test("a server that is killed leaves no process", async () => {
    await turn("please [hello]")
    assert.notDeepEqual(running(), [])
    await baton.kill()
    await gone(baton.world, SPEAKS)
    await baton.begin()
  })
})
