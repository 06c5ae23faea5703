// Plugins from the registry with effects outside of the session: one hides secrets from models, one reports to a service.

import assert from "node:assert/strict"
import { readFile, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { within } from "../support/wait.mjs"
import { MAIN, Model, SMALL } from "./support/model.mjs"
import { startBaton } from "./support/peers.mjs"
import { assertWhole, User } from "./support/user.mjs"
import { publishedWorld, versionOf } from "./support/published.mjs"

const MODEL = { providerID: "scripted", modelID: MAIN }
const WAIT_MS = 20_000

// Waits until `look` finds something, and returns it.
function eventually(look, what) {
  const found = async () => {
    for (;;) {
      const value = await look()
      if (value) return value
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  return within(WAIT_MS, found(), what)
}

// A server with one plugin; `prepare` may change its world before it starts.
function meet(name, prepare) {
  const it = {}
  before(async () => {
    it.model = await Model.start()
    const world = await publishedWorld(it.model, name)
    await prepare(world)
    it.baton = await startBaton(it.model, { world })
    it.user = new User(it.baton, MODEL)
  })
  after(async () => {
    await it.baton?.stop()
    await it.model?.stop()
  })
  return it
}

describe("opencode-vibeguard", () => {
  const SECRET = "my-api-key-123"
  const it = meet("opencode-vibeguard", async (world) => {
    const keywords = [{ value: SECRET, category: "API_KEY" }]
    const config = { enabled: true, patterns: { keywords } }
    await writeFile(path.join(world.project, "vibeguard.config.json"), JSON.stringify(config))
    await writeFile(path.join(world.project, "README.md"), `The key is ${SECRET}.\n`)
  })

  test("no model sees the secret, be it for an answer, a title or a summary", async () => {
    const ended = await it.user.turn(`The key is ${SECRET}, please [read]`)
    assertWhole(ended)
    const [user, answer] = ended.messages
    assert.match(JSON.stringify(user), new RegExp(SECRET), "the user's words are stored as written")
    const { state } = answer.parts.find(({ type }) => type === "tool")
    assert.match(state.output, new RegExp(SECRET), "so is the output of a tool")

    const named = ({ model }) => model === SMALL
    const [title] = await eventually(() => {
      const titles = it.model.calls.filter(named)
      return titles.length > 0 && titles
    }, "a call for a title")
    const since = it.model.calls.length
    await it.user.turnOf(ended.session, "/summarize", MODEL)
    const summary = it.model.calls.slice(since).find((call) => !named(call))
    const answers = it.model.calls.filter(({ tools }) => tools?.length)
    assert.equal(answers.length, 2)
    for (const call of [title, summary, ...answers]) assert.match(JSON.stringify(call.messages), /__VG_API_KEY_/)
    assert.doesNotMatch(JSON.stringify(it.model.calls), new RegExp(SECRET))
  })
})

describe("opencode-wakatime", () => {
  // Replaces WakaTime's program: writes its arguments to a file, one per line.
  const STUB = '#!/bin/sh\nprintf \'%s\\n\' "$@" >>"$0.told"\necho end >>"$0.told"\n'
  let program
  const it = meet("opencode-wakatime", async (world) => {
    program = path.join(world.bin, "wakatime-cli")
    await writeFile(program, STUB, { mode: 0o755 })
  })

  test("reports a changed file, OpenCode's version and its own", async () => {
    assertWhole(await it.user.turn("please [edit]"))
    const told = await eventually(async () => {
      const text = await readFile(`${program}.told`, "utf8").catch(() => "")
      return text.endsWith("end\n") && text.split("\n")
    }, "a report")
    const argument = (name) => told[told.indexOf(name) + 1]
    assert.equal(path.basename(argument("--entity")), "README.md")
    assert.equal(argument("--project-folder"), it.baton.world.project)
    const own = await versionOf("opencode-wakatime")
    assert.equal(argument("--plugin"), `opencode-cli/${process.env.OPENCODE_VERSION} opencode-wakatime/${own}`)
  })
})
