// An agent of the Agent Client Protocol behind Baton: Baton runs the real `opencode acp`, which calls the scripted model.
// Each turn has one busy and one idle, files are really changed, and no process is left.

import assert from "node:assert/strict"
import { describe, test } from "node:test"
import { Baton } from "../support/server.mjs"
import { LIMITS, meet, scenes } from "./support/agent.mjs"
import { Model } from "./support/model.mjs"
import { createWorld, environment, opencode } from "./support/peers.mjs"
import { assertWhole, said, tools } from "./support/user.mjs"

describe("OpenCode over the Agent Client Protocol", () => {
  const acp = meet({
    provider: "acp:opencode",
    words: "\0acp\0",
    start: async () => {
      const model = await Model.start()
      const world = await createWorld(model)
      const config = { acp: { opencode: { command: opencode("acp"), environment: environment(world) } }, limits: LIMITS }
      await world.configure(config)
      return { model, baton: await Baton.start({ world }) }
    },
  })
  scenes(acp, { tools: ["read", "edit"], edited: /Something new/ })

  // The protocol cannot describe subagents.
  test("a subagent appears as the tool call that started it", async () => {
    const ended = await acp.turn("please [hello_below]")
    assertWhole(ended)
    assert.deepEqual(tools(ended.parts), ["task:completed"])
    assert.equal(said(ended.parts), "It is done.")
  })
})
