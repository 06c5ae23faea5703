// A server with many agents is killed on a busy machine: the guard ends every process that the server had started.

import assert from "node:assert/strict"
import { spawn } from "node:child_process"
import { availableParallelism } from "node:os"
import { after, before, describe, test } from "node:test"
import { Baton } from "../support/server.mjs"
import { createWorld, KEY } from "./support/codex.mjs"
import { assertWhole, gone, User, present, processes } from "./support/user.mjs"
import { Responses } from "./support/responses.mjs"

const IDLE = 40
const WORKING = 4
// Codex processes that start at the same time.
const AT_ONCE = 4
// Processes for each core that compete with the guard.
const LOAD = 4

// On the command lines of Codex processes, and of the commands that they run.
const AGENT = "app-server"
const COMMAND = "4242"

const SCENARIOS = {
  hello: [{ acts: [{ say: "Hello from the scripted model." }] }],
  stall: [{ acts: [{ call: "exec_command", input: { cmd: `sleep ${COMMAND}` } }] }, { acts: [{ say: "It is over." }] }],
}

describe("a server with many agents", () => {
  let model, baton, user
  const load = []
  before(async () => {
    model = await Responses.start(SCENARIOS)
    baton = await Baton.start({ world: await createWorld(model, "gpt-5.5"), env: KEY })
    user = new User(baton, { providerID: "codex", modelID: "default" })
  })
  after(async () => {
    for (const child of load) child.kill("SIGKILL")
    await baton?.stop()
    await model?.stop()
  })

  test("leaves none of their processes when it is killed on a busy machine, and starts again idle", async () => {
    // Codex cannot start several times at once before it has created its database.
    const first = await user.turn("please [hello]")
    assertWhole(first)
    let begun = 1
    const start = async () => {
      while (begun < IDLE) {
        begun += 1
        assertWhole(await user.turn("please [hello]"))
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, start))
    assert.equal(processes(baton.world, AGENT).length, IDLE, "each session keeps its process")

    for (let working = 0; working < WORKING; working += 1) await user.prompt(await user.create(), "please [stall]")
    await present(baton.world, COMMAND, WORKING)
    assert.equal(processes(baton.world, AGENT).length, IDLE + WORKING)

    for (let count = LOAD * availableParallelism(); count > 0; count -= 1) {
      load.push(spawn("sh", ["-c", "while :; do :; done"], { env: {}, stdio: "ignore" }))
    }
    await baton.kill()
    await gone(baton.world, AGENT)
    await gone(baton.world, COMMAND)
    for (const child of load) child.kill("SIGKILL")

    await baton.begin()
    assert.deepEqual(await user.call("GET", "/session/status"), {})
    assertWhole(await user.turn("please [hello]", { session: first.session }))
  })
})
