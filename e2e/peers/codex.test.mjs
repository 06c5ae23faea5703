// The real Codex behind Baton: clients see the same events as from any other agent, and each turn is idle once.

import assert from "node:assert/strict"
import { writeFile } from "node:fs/promises"
import { describe, test } from "node:test"
import { Baton } from "../support/server.mjs"
import { family, meet, scenes } from "./support/agent.mjs"
import { createWorld, KEY } from "./support/codex.mjs"
import { assertWhole, idles, said } from "./support/user.mjs"
import { Responses } from "./support/responses.mjs"

const PATCH = "*** Begin Patch\n*** Update File: README.md\n@@\n End of file.\n+A line at the end.\n*** End Patch\n"

// Newer models call most of their tools from a program, and have different tools for subagents.
const MODELS = {
  "gpt-5.5": {
    use: (call, input) => ({ call, input }),
    patch: (patch) => ({ patch }),
    spawn: (message) => ({ call: "spawn_agent", space: "multi_agent_v1", input: { message } }),
  },
  "gpt-6-sol": {
    use: (tool, input) => ({ script: `await tools.${tool}(${JSON.stringify(input)})` }),
    patch: (patch) => ({ script: `await tools.apply_patch(${JSON.stringify(patch)})` }),
    spawn: (message) => together("spawn_agent", { message, task_name: "helper", fork_turns: "none" }),
  },
}

const together = (call, input = {}) => ({ call, space: "collaboration", input })

const scenarios = ({ use, patch, spawn }) => {
  const run = (cmd) => use("exec_command", { cmd })
  // Only Baton waits for the other agent.
  const delegate = (message) => [{ acts: [spawn(message)] }, { acts: [{ say: "It is done." }] }]
  return {
    hello: [{ acts: [{ say: "Hello from the scripted model." }] }],
    edit: [
      { acts: [{ say: "I'll read it first." }, run("cat README.md")] },
      { acts: [{ say: "Now I'll add the line." }, patch(PATCH)] },
      { acts: [{ say: "Done." }] },
    ],
    permission: [{ acts: [run("touch asked.txt")] }, { acts: [{ say: "The file is there." }] }],
    hold: [{ acts: [{ say: "I begin and wait", hold: true }] }],
    stall: [{ acts: [run("sleep 4242")] }, { acts: [{ say: "It is over." }] }],
    refused: [{ status: 400, message: "scripted refusal" }],
    hello_below: delegate("Say it [hello]"),
    permission_below: delegate("Do it [permission]"),
    hold_below: delegate("Wait [hold]"),
    nested: delegate("Delegate it [hold_below]"),
    // Codex itself starts the turn in which the goal is reached.
    goal: [{ acts: [use("create_goal", { objective: "Reach it [reach]" })] }, { acts: [{ say: "I have set it." }] }],
    reach: [{ acts: [use("update_goal", { status: "complete" })] }, { acts: [{ say: "It is reached." }] }],
    again: [
      { acts: [spawn("Say it [hello]")] },
      { acts: [together("wait_agent")] },
      { acts: [together("followup_task", { target: "helper", message: "Once more [hello]" })] },
      { acts: [{ say: "It is done twice." }] },
    ],
  }
}

for (const [name, tools] of Object.entries(MODELS)) {
  describe(`the real Codex with ${name}`, () => {
    const codex = meet({
      provider: "codex",
      words: "app-server",
      start: async () => {
        const model = await Responses.start(scenarios(tools))
        const world = await createWorld(model, name)
        return { model, baton: await Baton.start({ world, env: KEY }) }
      },
    })
    const { turn } = codex
    scenes(codex, { tools: ["bash", "apply_patch"], edited: /End of file\.\nA line at the end\.\n$/, compacts: true })

    test("text and token counts", async () => {
      await writeFile(codex.readme, codex.text)
      const edited = await turn("please [edit]")
      assert.equal(said(edited.parts), "I'll read it first.|Now I'll add the line.|Done.")
      const { tokens } = await codex.user.call("GET", `/session/${edited.session.id}`)
      assert.deepEqual([tokens.input, tokens.cache.read, tokens.output, tokens.reasoning], [3000, 600, 90, 12])
    })

    test("it continues in the same process after an abort", async () => {
      let before
      const stop = codex.user.stops()["message.part.delta"]
      const look = (...args) => ((before ??= codex.running()), stop(...args))
      const held = await turn("please [hold]", { acts: { "message.part.delta": look } })
      codex.model.release()
      await turn("please [hello]", { session: held.session })
      assert.deepEqual(codex.running(), before)
    })

    test("a session is busy until its goal is reached", async () => {
      const ended = await turn("please [goal]")
      assertWhole(ended)
      assert.equal(said(ended.parts), "I have set it.|It is reached.")
    })

    family(codex, { told: name === "gpt-5.5" ? "Say it [hello]" : "Codex does not report the prompt of this agent." })

    test("a session is busy until its subagents have ended, each after its own subagents", async () => {
      // The innermost subagent still works when the others have sent their last text.
      const last = new Set()
      let held
      const watch = async ({ properties: { info } }, session) => {
        if (info.role !== "assistant" || info.finish !== "stop") return
        last.add(info.sessionID)
        if (last.size < 2 || held) return
        held = codex.model.holding()
        await held
        const states = await codex.user.call("GET", "/session/status")
        assert.equal(states[session.id].type, "busy")
        codex.model.release()
      }
      const ended = await turn("please [nested]", { acts: { "message.updated": watch } })
      assertWhole(ended)
      const [child] = await codex.user.children(ended)
      assertWhole(child)
      const [inner] = await codex.user.children(child)
      assertWhole(inner)
      assert.equal(said(inner.parts), "I begin and wait")
      assert.deepEqual(idles(ended), [inner, child, ended].map(({ session }) => session.id))
    })

    // Older models need the ids of other agents.
    if (name === "gpt-5.5") return
    test("a subagent that gets another message continues in its session", async () => {
      const ended = await turn("please [again]")
      assertWhole(ended)
      const [child, ...others] = await codex.user.children(ended)
      assert.deepEqual(others, [])
      assert.equal(said(child.parts), "Hello from the scripted model.|Hello from the scripted model.")
    })
  })
}
