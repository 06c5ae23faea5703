// The real Claude Code behind Baton: the same events as from any other agent, one idle for each turn, and no process
// that outlives its use.

import assert from "node:assert/strict"
import { describe, test } from "node:test"
import { Baton } from "../support/server.mjs"
import { family, LIMITS, meet, scenes } from "./support/agent.mjs"
import { Anthropic } from "./support/anthropic.mjs"
import { createWorld } from "./support/peers.mjs"
import { assertWhole, idles } from "./support/user.mjs"

// The directory in which `cargo xtask peers` has installed Claude Code.
const PROGRAM = process.env.CLAUDE_BIN

// Disables downloads, telemetry and updates.
const environment = (model) => ({
  ANTHROPIC_BASE_URL: model.url,
  ANTHROPIC_API_KEY: "not-a-key",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_AUTOUPDATER: "1",
  DISABLE_TELEMETRY: "1",
  DISABLE_ERROR_REPORTING: "1",
})

describe("Claude Code", () => {
  const claude = meet({
    provider: "claude-code",
    words: PROGRAM,
    start: async () => {
      assert.ok(PROGRAM, "CLAUDE_BIN is not set: run this with `cargo xtask peers`")
      const model = await Anthropic.start()
      const world = await createWorld(model)
      const agents = { "claude-code": { command: [PROGRAM], environment: environment(model) } }
      await world.configure({ agents, limits: LIMITS })
      return { model, baton: await Baton.start({ world }) }
    },
  })
  const { turn } = claude
  // The prompt names the scenario and its file.
  const say = (name) => `please [[${name}]] ${claude.readme}`
  scenes(claude, { say, tools: ["read", "edit"], edited: /\nAdded\.\n$/, compacts: true })
  family(claude, { say, told: "Say it [[hello]]" })

  test("the turn continues while its todo list is not finished", async () => {
    const finished = await turn(say("unfinished"), { acts: claude.user.replies("once") })
    assertWhole(finished)
    assert.equal(finished.events.filter(({ type }) => type === "continuation.started").length, 1)
    const todos = await claude.user.call("GET", `/session/${finished.session.id}/todo`)
    assert.deepEqual(todos.map(({ content, status }) => `${content} ${status}`), ["Work completed"])
  })

  test("an abort withdraws a prompt that waits", async () => {
    const calls = claude.model.calls.length
    const stop = async (session) => {
      await claude.user.prompt(session, say("hello"))
      await claude.user.call("POST", `/session/${session.id}/abort`)
    }
    let stopped
    const held = await turn(say("hold"), { acts: { "message.part.delta": (_, session) => (stopped ??= stop(session)) } })
    await stopped
    claude.model.release()
    assertWhole(held, "aborted")
    await turn("[[hello]] sassafras", { session: held.session })
    const heard = claude.model.calls.slice(calls).filter(({ tools }) => tools?.length)
    assert.equal(heard.length, 2, "the model gets no call for the withdrawn prompt")
  })

  test("it continues in the same process after an abort", async () => {
    let before
    const stop = claude.user.stops()["message.part.delta"]
    const look = (...args) => ((before ??= claude.running()), stop(...args))
    const held = await turn(say("hold"), { acts: { "message.part.delta": look } })
    claude.model.release()
    await turn(say("hello"), { session: held.session })
    assert.deepEqual(claude.running(), before)
  })

  test("a subagent in the background keeps the session busy", async () => {
    const ended = await turn(say("background"), { acts: claude.user.replies("once") })
    assertWhole(ended)
    const [child] = await claude.user.children(ended)
    assertWhole(child)
    assert.deepEqual(idles(ended), [child.session.id, ended.session.id])
  })
})
