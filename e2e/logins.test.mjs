// Plugins with logins for a provider: they list its models, offer login methods, interpret a login and make the
// calls. Also plugins that misbehave.

import assert from "node:assert/strict"
import { mkdir, readFile, stat, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { Model } from "./peers/support/model.mjs"
import { configureUser, pluginWorld, putPlugins } from "./support/plugins.mjs"
import { ok, textOf, v1 } from "./support/sdk.mjs"
import { Baton } from "./support/server.mjs"
import { listen } from "./support/stream.mjs"
import { idlePairs } from "./support/tape.mjs"
import { within } from "./support/wait.mjs"

const MODEL = { providerID: "nebius", modelID: "door-1" }
const HELLO = "Hello from the scripted model."
const prompt = (text) => ({ model: MODEL, parts: [{ type: "text", text }] })

// A model that also records the headers of its calls.
class Door extends Model {
  headers = []

  answer(request, text, response) {
    this.headers.push(request.headers)
    return super.answer(request, text, response)
  }
}

// A world whose user has the plugin, and whose project configures the model's address.
async function doorWorld(door) {
  const world = await pluginWorld()
  await putPlugins(path.join(await configureUser(world, {}), "plugins"), "doorman.ts")
  await writeFile(path.join(world.project, "door.txt"), door.url)
  return world
}

async function call(baton, target, body, method = "POST") {
  const init = body === undefined ? {} : { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) }
  const response = await baton.fetch(target, init)
  return { status: response.status, body: await response.json() }
}

const login = (baton, step, body) => call(baton, `/provider/nebius/oauth/${step}`, body)

describe("a plugin with a login for a provider", () => {
  let door, baton, sdk
  before(async () => {
    door = await Door.start()
    baton = await Baton.start({ world: await doorWorld(door), args: ["--print-logs"] })
    sdk = v1(baton)
  })
  after(async () => {
    await baton?.stop()
    await door?.stop()
  })
  const kept = async () => JSON.parse(await readFile(path.join(baton.world.data, "auth.json"), "utf8")).nebius
  const listed = async () => (await call(baton, "/config/providers")).body.providers.find(({ id }) => id === "nebius")

  test("offers login methods", async () => {
    assert.equal(await listed(), undefined, "there is no login yet")
    const { nebius } = (await call(baton, "/provider/auth")).body
    assert.deepEqual(nebius.map(({ type, label }) => [type, label]), [
      ["oauth", "Bring a code back"],
      ["oauth", "Wait at the door"],
      ["api", "Show a key"],
    ])
    assert.deepEqual(nebius[0].prompts[0], { type: "text", key: "team", message: "Which team?", placeholder: "blue" })
    assert.deepEqual(nebius[0].prompts[1].when, { key: "team", op: "eq", value: "blue" })
  })

  test("refuses invalid answers", async () => {
    const missing = await login(baton, "callback", { method: 0, code: "open-sesame" })
    assert.deepEqual([missing.status, missing.body.name], [400, "ProviderAuthOauthMissing"])
    assert.match(missing.body.data.message, /start it again/)
    const invalid = await login(baton, "authorize", { method: 0, inputs: { team: "red" } })
    assert.deepEqual([invalid.status, invalid.body.name], [400, "ProviderAuthValidationFailed"])
    assert.deepEqual([invalid.body.data.field, invalid.body.data.message], ["team", "There is no such team"])
    const unknown = await login(baton, "authorize", { method: 7 })
    assert.deepEqual([unknown.status, unknown.body.name], [400, "BadRequest"])
    assert.match(unknown.body.data.message, /0 \(Bring a code back\), 1 \(Wait at the door\), 2 \(Show a key\)/)
    assert.deepEqual(await login(baton, "authorize", { method: 2 }), { status: 200, body: null })
    assert.equal((await call(baton, "/provider/other/oauth/authorize", { method: 0 })).status, 400)
  })

  test("logs in with a code and makes the calls", async () => {
    const begun = await login(baton, "authorize", { method: 0, inputs: { team: "blue" } })
    assert.deepEqual(begun.body, { url: "https://door.invalid/?team=blue", method: "code", instructions: "Bring the code back" })
    for (const [code, name] of [
      [undefined, "ProviderAuthOauthCodeMissing"],
      ["wrong", "ProviderAuthOauthCallbackFailed"],
      ["trouble", "ProviderAuthOauthCallbackFailed"],
    ]) {
      const refused = await login(baton, "callback", { method: 0, code })
      assert.deepEqual([refused.status, refused.body.name], [400, name])
    }
    assert.deepEqual(await login(baton, "callback", { method: 0, code: "open-sesame" }), { status: 200, body: true })
    assert.deepEqual([(await kept()).type, (await kept()).access], ["oauth", "token-of-blue"])
    assert.equal((await stat(path.join(baton.world.data, "auth.json"))).mode & 0o777, 0o600)

    const provider = await listed()
    assert.deepEqual([provider.source, Object.keys(provider.models)], ["custom", ["door-1"]])
    const { name, cost, limit } = provider.models["door-1"]
    assert.deepEqual([name, cost.input, cost.output, limit.context], ["Door for oauth", 0, 2, 50_000])
    assert.doesNotMatch(JSON.stringify(provider), /token-of-blue|refresh-0123456789/)

    const { id } = await ok(sdk.create())
    assert.equal(textOf(await ok(sdk.prompt(id, prompt("please [hello]")))), HELLO)
    const { authorization, ...headers } = door.headers.at(-1)
    assert.deepEqual([authorization, headers["x-loaded"], headers["x-fetched"]], ["Bearer token-of-blue", "yes", "yes"])
    assert.equal(door.calls.at(-1).model, "main")
  })

  test("streams: text arrives while the model pauses, and an abort reaches it", async () => {
    const events = await listen(baton)
    const { id } = await ok(sdk.create())
    await ok(sdk.promptAsync(id, prompt("please [hold]")))
    await within(20_000, door.holding(), "the model to stand still")
    await events.tape.type("message.part.delta", id)
    await ok(sdk.client.session.abort({ path: { id } }))
    await events.tape.idle(id)
    const gone = async () => {
      while (door.isHolding) await new Promise((done) => setTimeout(done, 10))
    }
    await within(20_000, gone(), "the call to be ended")
    await events.close()
  })

  test("waits for a login, renews it during a turn, and the turn continues", async () => {
    const begun = await login(baton, "authorize", { method: 1 })
    assert.equal(begun.body.method, "auto")
    assert.deepEqual((await login(baton, "callback", { method: 1 })).body, true)
    assert.equal((await kept()).access, "waited-0123456789")
    const { id } = await ok(sdk.create())
    const last = await ok(sdk.prompt(id, prompt("please [read]")))
    assert.equal(textOf(last), "It says something to read.")
    assert.deepEqual([(await kept()).access, door.headers.at(-1).authorization], ["renewed-0123456789", "Bearer renewed-0123456789"])
  })

  test("interprets a key without making the calls itself", async () => {
    const key = { type: "api", key: "sk-door-0123456789", metadata: { team: "green" } }
    assert.deepEqual(await call(baton, "/auth/nebius", key, "PUT"), { status: 200, body: true })
    const { id } = await ok(sdk.create())
    assert.equal(textOf(await ok(sdk.prompt(id, prompt("please [hello]")))), HELLO)
    const { authorization, ...headers } = door.headers.at(-1)
    assert.deepEqual([authorization, headers["x-team"], headers["x-fetched"]], ["Bearer sk-door-0123456789", "green", undefined])
  })

  test("shows no credentials to clients", async () => {
    for (const secret of ["token-of-blue", "waited-0123456789", "renewed-0123456789", "refresh-0123456789", "open-sesame", "sk-door"]) {
      assert.ok(!baton.stderr.includes(secret), secret)
    }
  })
})

test("such a plugin works in `baton run`, without a server", async () => {
  const door = await Door.start()
  const world = await doorWorld(door)
  const nebius = { type: "oauth", refresh: "refresh-0123456789", access: "run-0123456789", expires: 4e12 }
  await writeFile(path.join(world.data, "auth.json"), JSON.stringify({ nebius }), { mode: 0o600 })
  const { code, stdout, stderr } = await world.run(["run", "please [hello]", "--model", "nebius/door-1", "--data-dir", world.data])
  assert.deepEqual([code, stdout], [0, `${HELLO}\n`], stderr)
  assert.equal(door.headers[0].authorization, "Bearer run-0123456789")
  await world.remove()
  await door.stop()
})

describe("a misbehaving plugin of a provider", () => {
  let door, baton, sdk
  before(async () => {
    door = await Door.start()
    const world = await pluginWorld()
    const folder = await configureUser(world, { plugin: ["./trouble.js"] }, { limits: { hook_seconds: 0.5 } })
    await putPlugins(folder, "trouble.js")
    const key = { type: "api", key: "sk-door-0123456789" }
    await writeFile(path.join(world.data, "auth.json"), JSON.stringify({ nebius: key }), { mode: 0o600 })
    // Its configuration names the address that gets the key.
    await world.trust()
    baton = await Baton.start({ world, args: ["--print-logs"] })
    sdk = v1(baton)
  })
  after(async () => {
    await baton?.stop()
    await door?.stop()
  })

  // The provider without the plugin: its key, and its own models at another address.
  const config = () => ({ provider: { nebius: { options: { baseURL: door.url }, models: { mine: { id: "main", tool_call: true } } } } })

  for (const how of ["throws", "hangs", "spins", "exits", "floods"]) {
    test(`${how} in any of its hooks, and the provider works as without it`, async () => {
      const failing = ["auth.loader", "auth.fetch", "provider.models"].map(async (hook) => {
        const directory = path.join(baton.directory, `${how}-${hook}`)
        await mkdir(directory)
        await writeFile(path.join(directory, "trouble.json"), JSON.stringify({ hook, how }))
        await writeFile(path.join(directory, "opencode.json"), JSON.stringify(config()))
        const query = { directory }
        const events = await listen(baton, { target: `/event?directory=${encodeURIComponent(directory)}` })
        const { id } = await ok(sdk.client.session.create({ query }))
        const body = { model: { providerID: "nebius", modelID: "mine" }, parts: [{ type: "text", text: "please [hello]" }] }
        await ok(sdk.client.session.promptAsync({ path: { id }, body, query }))
        // A plugin's call has the same timeouts as any other, which are longer than a test.
        if (hook === "auth.fetch" && how !== "throws") await sdk.client.session.abort({ path: { id }, query })
        await events.tape.idle(id, 1, { ms: 60_000 })
        const messages = await ok(sdk.client.session.messages({ path: { id }, query }))
        if (hook !== "auth.fetch") assert.equal(textOf(messages.at(-1)), HELLO, `${how} in ${hook}`)
        assert.equal(idlePairs(events.tape.of(id)).get(id), 1, `${how} in ${hook}`)
        await events.close()
      })
      await Promise.all(failing)
    })

    test(`${how} during a login, and the client gets an error`, async () => {
      for (const hook of ["auth.authorize", "auth.callback"]) {
        if (hook === "auth.callback" && !["throws", "exits"].includes(how)) continue
        const directory = path.join(baton.directory, `${how}-${hook}`)
        await mkdir(directory)
        await writeFile(path.join(directory, "trouble.json"), JSON.stringify({ hook, how }))
        const at = `?directory=${encodeURIComponent(directory)}`
        let { status, body } = await within(60_000, login(baton, `authorize${at}`, { method: 0 }), hook)
        if (hook === "auth.callback") {
          assert.equal(status, 200)
          ;({ status, body } = await within(60_000, login(baton, `callback${at}`, { method: 0, code: "c" }), hook))
        }
        assert.equal(status, 400, `${how} in ${hook}`)
        assert.match(body.name, /^(BadRequest|ProviderAuthOauth(Missing|CallbackFailed))$/)
      }
    })
  }
})
