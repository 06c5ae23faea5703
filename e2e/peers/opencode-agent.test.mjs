// OpenCode as an agent behind Baton: Baton starts the real `opencode serve`, which calls the scripted model. Each turn has one
// busy and one idle, whatever OpenCode itself publishes, files are really changed, and no process is left.

import assert from "node:assert/strict"
import { readFile, writeFile } from "node:fs/promises"
import { describe, test } from "node:test"
import { Baton } from "../support/server.mjs"
import { family, LIMITS, meet, scenes } from "./support/agent.mjs"
import { Model } from "./support/model.mjs"
import { createWorld, environment, opencode } from "./support/peers.mjs"
import { assertWhole, kinds, said } from "./support/user.mjs"

describe("OpenCode as an agent", () => {
  const agent = meet({
    provider: "opencode-agent",
    words: "serve\0--hostname",
    start: async () => {
      const model = await Model.start()
      const world = await createWorld(model)
      const settings = { command: opencode(), environment: environment(world), idle_seconds: 600 }
      await world.configure({ agents: { "opencode-agent": settings }, limits: LIMITS })
      return { model, baton: await Baton.start({ world }) }
    },
  })
  const { turn } = agent
  const call = (...args) => agent.user.call(...args)
  scenes(agent, { tools: ["read", "edit"], edited: /Something new/ })
  family(agent, { told: "please [hello]" })

  test("its abilities and its version are listed", async () => {
    const { providers } = await call("GET", "/config/providers")
    const provider = providers.find(({ id }) => id === "opencode-agent")
    assert.deepEqual(Object.keys(provider.models), ["default"])
    const agents = await call("GET", "/agent")
    const found = agents.find(({ name }) => name === "opencode-agent")
    assert.deepEqual(found.model, { providerID: "opencode-agent", modelID: "default" })
    assert.deepEqual([found.external.questions, found.external.continuation], [true, true])
    const { stdout } = await agent.baton.world.run(["agents", "--json"])
    const row = JSON.parse(stdout).find(({ id }) => id === "opencode-agent")
    assert.equal(row.version, process.env.OPENCODE_VERSION)
  })

  test("its changes can be reverted", async () => {
    await writeFile(agent.readme, agent.text)
    const edited = await turn("please [edit]")
    assert.deepEqual(edited.parts.filter(({ type }) => type === "patch").flatMap(({ files }) => files), [agent.readme])
    await call("POST", `/session/${edited.session.id}/revert`, { messageID: edited.messages[0].info.id })
    assert.equal(await readFile(agent.readme, "utf8"), agent.text)
  })

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

  test("a turn continues while its todo list is not finished", async () => {
    const finished = await turn("please [unfinished]")
    assertWhole(finished)
    assert.equal(said(finished.parts), "Planned.|All done.")
    assert.equal(finished.events.filter(({ type }) => type === "continuation.started").length, 1)
    const todos = await call("GET", `/session/${finished.session.id}/todo`)
    assert.deepEqual(todos.map(({ status }) => status), ["completed"])
  })

  test("a turn without progress is not continued, and reports the reason", async () => {
    const stuck = await turn("please [open]")
    assertWhole(stuck)
    const [stopped, ...more] = stuck.events.filter(({ type }) => type === "continuation.stopped")
    assert.deepEqual([stopped.properties.reason, more.length], ["stagnant", 0])
  })

  test("a retry is a status", async () => {
    const again = await turn("please [again]")
    assert.deepEqual(kinds(again.statuses), ["busy", "retry", "busy", "idle"])
    assert.equal(said(again.parts), "At last.")
  })

  test("one process serves all sessions", async () => {
    await turn("please [hello]")
    await turn("please [hello]")
    assert.equal(agent.running().length, 1)
  })
})
