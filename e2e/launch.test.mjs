// `createOpencode()`, the SDK's own way to start a server: it runs the program called `opencode`.

import assert from "node:assert/strict"
import childProcess from "node:child_process"
import { once } from "node:events"
import { symlink } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, mock, test } from "node:test"
import { createOpencode as launchV1 } from "@opencode-ai/sdk"
import { createOpencode as launchV2 } from "@opencode-ai/sdk/v2"
import { ask, ok, textOf, v1, v2 } from "./support/sdk.mjs"
import { binary, World } from "./support/server.mjs"
import { record } from "./support/stream.mjs"
import { story } from "./support/tape.mjs"
import { within } from "./support/wait.mjs"

// The SDK hides the process, but the test must know when and how it ends.
const spawn = mock.method(childProcess, "spawn")

const newest = () => spawn.mock.calls.at(-1).result

async function close(server, child = newest()) {
  const exit = once(child, "exit")
  server.close()
  assert.deepEqual(await within(8_000, exit, "the server to go"), [0, null])
}

for (const [name, launch, connect] of [
  ["v1", launchV1, v1],
  ["v2", launchV2, v2],
]) {
  describe(`createOpencode of ${name}`, () => {
    let world
    const outside = { cwd: process.cwd(), env: { ...process.env } }
    before(async () => {
      world = await World.create()
      await symlink(binary, path.join(world.bin, "opencode"))
      // The SDK passes its own environment and directory to the process it starts.
      replaceEnv(world.env())
      process.chdir(world.project)
    })
    after(async () => {
      process.chdir(outside.cwd)
      replaceEnv(outside.env)
      await world.remove()
    })

    test("it starts Baton, prompts it and stops it", async () => {
      const config = { model: "demo/simple" }
      const { client, server } = await launch({ port: 0, config })
      assert.match(server.url, /^http:\/\/127\.0\.0\.1:\d+$/)
      const sdk = connect({ url: server.url, directory: world.project })
      const events = await record(sdk.subscribe)

      assert.equal((await ok(client.config.get())).model, config.model, "the configuration it was given")
      const session = await ok(client.session.create())
      assert.equal(session.directory, world.project)
      const answer = await ok(sdk.prompt(session.id, { parts: [{ type: "text", text: "hello" }] }))
      assert.deepEqual([answer.info.providerID, answer.info.modelID], ["demo", "simple"])
      assert.equal(textOf(answer), "Hello from the demo model. All is well.")
      await events.tape.idle(session.id)

      await ok(sdk.promptAsync(session.id, ask("slow:10000@20")))
      await events.tape.type("message.part.delta", session.id, { from: events.tape.frames.length })
      await close(server)
      await events.ended
      assert.deepEqual(
        story(events.tape.of(session.id)).slice(-2),
        ["IDLE(interrupted)", "session.idle"],
        "a turn that was running has its one idle before the server is gone",
      )
    })

    test("a server that cannot start reports why", async () => {
      // Two servers on one database: the second must refuse to start.
      const { server } = await launch({ port: 0 })
      const first = newest()
      await assert.rejects(launch({ port: 0 }), /Server exited with code [1-9][\s\S]*another server/)
      await close(server, first)
    })
  })
}

function replaceEnv(env) {
  for (const name of Object.keys(process.env)) delete process.env[name]
  Object.assign(process.env, env)
}
