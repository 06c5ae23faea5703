// A plugin with a login for a provider, unmodified, in OpenCode and in Baton: both offer the same login methods and models,
// and make the same calls to the model.

import assert from "node:assert/strict"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { pluginWorld, putPlugins } from "../support/plugins.mjs"
import { Model } from "./support/model.mjs"
import { OpenCode, createWorld, modules, startBaton } from "./support/peers.mjs"

const MODEL = { providerID: "nebius", modelID: "door-1" }

// A model that also records the callers.
class Door extends Model {
  headers = []

  answer(request, text, response) {
    this.headers.push(request.headers)
    return super.answer(request, text, response)
  }
}

// A world whose project has the plugin and the address of the model, and is trusted.
async function world(model) {
  const world = await createWorld(model, await pluginWorld(modules))
  await putPlugins(path.join(world.project, ".opencode/plugin"), "doorman.ts")
  await writeFile(path.join(world.project, "door.txt"), model.url)
  const file = path.join(world.project, "opencode.json")
  const config = JSON.parse(await readFile(file, "utf8"))
  await writeFile(file, JSON.stringify({ ...config, enabled_providers: ["scripted", "nebius"] }))
  await world.trust()
  // OpenCode would wait for a registry that is not there, unless its folders look installed.
  for (const folder of [path.join(world.project, ".opencode"), path.join(world.home, "config/opencode")]) {
    await mkdir(path.join(folder, "node_modules"), { recursive: true })
    const packages = { "": { dependencies: { "@opencode-ai/plugin": "*" } } }
    await writeFile(path.join(folder, "package-lock.json"), JSON.stringify({ packages }))
  }
  return world
}

describe("a plugin with a login for a provider", () => {
  let models, servers
  before(async () => {
    models = [await Door.start(), await Door.start()]
    const worlds = [await world(models[0]), await world(models[1])]
    servers = await Promise.all([startBaton(models[0], { world: worlds[0] }), OpenCode.start(models[1], { world: worlds[1] })])
  })
  after(async () => {
    await Promise.all((servers ?? []).map((server) => server.stop()))
    await Promise.all((models ?? []).map((model) => model.stop()))
  })

  const both = async (act) => Promise.all(servers.map((server, index) => act(server, models[index])))
  const same = async (act) => {
    const [ours, theirs] = await both(act)
    assert.deepEqual(ours, theirs)
    return ours
  }
  const ask = async (server, target, body, method = "POST") => {
    const init = body === undefined ? {} : { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) }
    const response = await server.fetch(target, init)
    return { status: response.status, body: await response.json() }
  }
  const login = (server, step, body) => ask(server, `/provider/nebius/oauth/${step}`, body)
  // OpenCode uses a login after the directory was disposed, which its terminal interface does.
  const dispose = (server) => ask(server, "/instance/dispose", {})
  const shown = async (server) => {
    const { providers } = (await ask(server, "/config/providers")).body
    const nebius = providers.find(({ id }) => id === "nebius")
    return nebius && { source: nebius.source, models: Object.values(nebius.models).map(({ id, name, api, limit, status }) => ({ id, name, api: api.id, limit, status })) }
  }
  const turn = async (server, model, text) => {
    const { id } = (await ask(server, "/session", {})).body
    const said = await ask(server, `/session/${id}/message`, { model: MODEL, parts: [{ type: "text", text }] })
    const { authorization, ...headers } = model.headers.at(-1)
    return {
      words: said.body.parts.filter(({ type }) => type === "text").map(({ text }) => text),
      call: [authorization, headers["x-loaded"], headers["x-fetched"], headers["x-team"]],
    }
  }

  test("lists the same login methods", async () => {
    const { body } = await same((server) => ask(server, "/provider/auth"))
    assert.deepEqual(body.nebius.map(({ label }) => label), ["Bring a code back", "Wait at the door", "Show a key"])
    assert.equal(await same(shown), undefined, "no login is stored")
  })

  test("refuses the same calls", async () => {
    const named = async (step, body) => same(async (server) => {
      const { status, body: { name } } = await login(server, step, body)
      return { status, name }
    })
    assert.deepEqual(await named("callback", { method: 0, code: "open-sesame" }), { status: 400, name: "ProviderAuthOauthMissing" })
    const red = { method: 0, inputs: { team: "red" } }
    assert.deepEqual(await named("authorize", red), { status: 400, name: "ProviderAuthValidationFailed" })
    await same((server) => login(server, "authorize", { method: 2 }))
  })

  test("logs in with a code, and the turn's call goes through the plugin", async () => {
    const begun = await same((server) => login(server, "authorize", { method: 0, inputs: { team: "blue" } }))
    assert.equal(begun.body.url, "https://door.invalid/?team=blue")
    for (const code of [undefined, "wrong"]) {
      await same(async (server) => {
        const { status, body } = await login(server, "callback", { method: 0, code })
        return { status, name: body.name }
      })
    }
    assert.deepEqual(await same((server) => login(server, "callback", { method: 0, code: "open-sesame" })), { status: 200, body: true })
    await both(dispose)
    const { source, models } = await same(shown)
    assert.deepEqual([source, models.map(({ id }) => id)], ["custom", ["door-1"]])
    const { words, call } = await same((server, model) => turn(server, model, "please [hello]"))
    assert.deepEqual(words, ["Hello from the scripted model."])
    assert.deepEqual(call, ["Bearer token-of-blue", "yes", "yes", undefined])
  })

  test("waits for a login and renews it in the middle of a turn", async () => {
    assert.equal((await same((server) => login(server, "authorize", { method: 1 }))).body.method, "auto")
    assert.equal((await same((server) => login(server, "callback", { method: 1 }))).body, true)
    await both(dispose)
    const { words, call } = await same((server, model) => turn(server, model, "please [read]"))
    assert.equal(words.at(-1), "It says something to read.")
    assert.equal(call[0], "Bearer renewed-0123456789")
  })

  test("turns a key into options of the provider", async () => {
    const key = { type: "api", key: "sk-door-0123456789", metadata: { team: "green" } }
    await same((server) => ask(server, "/auth/nebius", key, "PUT"))
    await both(dispose)
    const { call } = await same((server, model) => turn(server, model, "please [hello]"))
    assert.deepEqual(call, ["Bearer sk-door-0123456789", undefined, undefined, "green"])
  })
})
