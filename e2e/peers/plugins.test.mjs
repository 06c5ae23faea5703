// The same plugins, unmodified, in OpenCode and in Baton, with the same model: users see the same. Also a large and popular
// plugin from the registry.

import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { pluginWorld, putPlugins } from "../support/plugins.mjs"
import { listen } from "../support/stream.mjs"
import { within } from "../support/wait.mjs"
import { Model } from "./support/model.mjs"
import { OpenCode, createWorld, modules, startBaton } from "./support/peers.mjs"
import { publishedWorld } from "./support/published.mjs"

const MODEL = { providerID: "scripted", modelID: "main" }

const call = async (server, target, init) => {
  const response = await server.fetch(target, init)
  assert.ok(response.ok, `${target}: ${response.status} ${await response.clone().text()}`)
  return response.status === 204 ? undefined : response.json()
}
const post = (body) => ({ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })

// One turn, from a prompt to its last text.
async function turn(server, text) {
  const { id } = await call(server, "/session", post({}))
  await call(server, `/session/${id}/message`, post({ parts: [{ type: "text", text }] }))
  return call(server, `/session/${id}/message`)
}

const words = (messages) => messages.flatMap(({ parts }) => parts).filter((part) => part.type === "text").map((part) => part.text)
const git = (server, ...args) => execFileSync("git", args, { cwd: server.world.project, env: server.world.env(), encoding: "utf8" })

// A world whose project has plugins and is trusted.
async function world(model, ...plugins) {
  const world = await createWorld(model, await pluginWorld(modules))
  await putPlugins(path.join(world.project, ".opencode/plugin"), ...plugins)
  await world.trust()
  // OpenCode would wait for a registry that is not there, unless its folders look installed.
  for (const folder of [path.join(world.project, ".opencode"), path.join(world.home, "config/opencode")]) {
    await mkdir(path.join(folder, "node_modules"), { recursive: true })
    const packages = { "": { dependencies: { "@opencode-ai/plugin": "*" } } }
    await writeFile(path.join(folder, "package-lock.json"), JSON.stringify({ packages }))
  }
  for (const args of [["config", "user.name", "Ada"], ["config", "user.email", "ada@example.org"], ["add", "."], ["commit", "--quiet", "--message", "Plugins"]]) {
    execFileSync("git", args, { cwd: world.project, env: world.env() })
  }
  return world
}

describe("a plugin that was written for OpenCode", () => {
  let model, ours, theirs
  before(async () => {
    model = await Model.start()
    const plugins = ["auto-commit.ts", "open-todos.ts", "protect-env.ts"]
    const worlds = [await world(model, ...plugins), await world(model, ...plugins)]
    // OpenCode stops with open todos, so Baton has to stop, too.
    await writeFile(path.join(worlds[0].project, "baton.json"), JSON.stringify({ continuation: { enabled: false } }))
    ;[ours, theirs] = await Promise.all([startBaton(model, { world: worlds[0] }), OpenCode.start(model, { world: worlds[1] })])
  })
  after(async () => {
    await Promise.all([ours?.stop(), theirs?.stop()])
    await model?.stop()
  })
  const both = (act) => Promise.all([ours, theirs].map(act))

  test("adds the open todos to the stored text", async () => {
    const [mine, other] = await both(async (server) => words(await turn(server, "please [open]")))
    assert.match(mine.at(-1), /^Planned\.\n\n\[REMINDER\]\n- \[ \] Work/)
    assert.deepEqual(mine, other)
  })

  test("commits the changes of a turn, once", async () => {
    const commits = await both(async (server) => {
      const before = Number(git(server, "rev-list", "--count", "HEAD"))
      await turn(server, "please [write]")
      const isCommitted = async () => {
        while (Number(git(server, "rev-list", "--count", "HEAD")) === before) await new Promise((done) => setTimeout(done, 50))
      }
      await within(20_000, isCommitted(), "a commit")
      return { message: git(server, "log", "-1", "--format=%B"), files: git(server, "show", "--stat", "--format=", "HEAD") }
    })
    assert.match(commits[0].message, /^please \[write\]\n\n## Prompt\n/)
    assert.deepEqual(commits[0], commits[1])
  })

  test("forbids a call by throwing; the model reads the reason, and the turn continues", async () => {
    const since = model.calls.length
    const seen = await both(async (server) => {
      await writeFile(path.join(server.world.project, ".env"), "KEY=secret")
      const messages = await turn(server, "please [secret]")
      const calls = messages.flatMap(({ parts }) => parts).filter((part) => part.type === "tool")
      return { words: words(messages), calls: calls.map(({ tool, state }) => [tool, state.status, state.input, state.error]) }
    })
    assert.deepEqual(seen[0], seen[1])
    assert.deepEqual(
      seen[0].calls.map(([, status, , error]) => [status, error]),
      [["error", "Do not read .env files"], ["error", "Nor with a command"]],
    )
    const told = model.calls.slice(since).flatMap(({ messages }) => messages).filter(({ role }) => role === "tool")
    const texts = told.map(({ content }) => JSON.stringify(content))
    assert.ok(texts.length >= 4 && texts.every((text) => /Do not read|Nor with/.test(text)), `${texts}`)
  })
})

describe("oh-my-opencode", () => {
  let model, baton
  before(async () => {
    model = await Model.start()
    const world = await publishedWorld(model, "oh-my-opencode")
    baton = await startBaton(model, { world, env: { OMO_DISABLE_POSTHOG: "1", DO_NOT_TRACK: "1" } })
  })
  after(async () => {
    await baton?.stop()
    await model?.stop()
  })

  test("loads, its hooks are called, and a turn completes", async () => {
    const agents = await call(baton, "/agent")
    assert.ok(agents.some(({ name }) => /sisyphus/i.test(name)), `its agents: ${agents.map(({ name }) => name)}`)
    const tools = await call(baton, "/experimental/tool/ids")
    assert.ok(tools.includes("call_omo_agent") || tools.length > 20, `its tools: ${tools}`)
    const { id } = await call(baton, "/session", post({}))
    const parts = [{ type: "text", text: "please [hello]" }]
    const { info } = await call(baton, `/session/${id}/message`, post({ parts, model: MODEL, agent: agents[0].name }))
    assert.equal(info.error, undefined)
    assert.equal(info.finish, "stop")
  })

  // Runs a turn of its main agent. Returns the request to the model and the results of its tools.
  const watched = async (text) => {
    const since = model.calls.length
    const agents = await call(baton, "/agent")
    const { name } = agents.find(({ name }) => /sisyphus/i.test(name))
    const { id } = await call(baton, "/session", post({}))
    await call(baton, `/session/${id}/message`, post({ parts: [{ type: "text", text }], model: MODEL, agent: name }))
    const messages = await call(baton, `/session/${id}/message`)
    const tools = messages.flatMap(({ parts }) => parts).filter(({ type }) => type === "tool")
    return { calls: model.calls.slice(since).filter(({ tools }) => tools?.length), tools }
  }

  test("changes a prompt that contains its keyword, and the description of a tool", async () => {
    const { calls } = await watched("ultrawork please [hello]")
    const said = JSON.stringify(calls[0].messages.filter(({ role }) => role === "user"))
    // `chat.message`
    assert.match(said, /<ultrawork-mode>/)
    // `tool.definition`
    const todos = calls[0].tools.find((tool) => tool.function.name === "todowrite")
    assert.match(todos.function.description, /## OpenCode Schema Contract/)
    const plain = await watched("please [hello]")
    assert.doesNotMatch(JSON.stringify(plain.calls[0].messages.filter(({ role }) => role === "user")), /<ultrawork-mode>/)
  })

  test("searches for programs as in OpenCode: it has its terminal tool, because tmux is installed", async () => {
    assert.ok((await call(baton, "/experimental/tool/ids")).includes("interactive_bash"))
  })

  test("does not add its continuation to Baton's: one continuation, one idle", async () => {
    const events = await listen(baton)
    const { name } = (await call(baton, "/agent")).find(({ name }) => /sisyphus/i.test(name))
    const { id } = await call(baton, "/session", post({}))
    const since = model.calls.length
    const parts = [{ type: "text", text: "please [open]" }]
    await call(baton, `/session/${id}/message`, post({ parts, model: MODEL, agent: name }))
    // Its enforcer waits two seconds before it prompts, and logs the result.
    const log = path.join(baton.world.root, "oh-my-opencode.log")
    const outcome = /todo-continuation-enforcer\] Injection (?!in flight)/
    const isDecided = async () => {
      while (!outcome.test(await readFile(log, "utf8").catch(() => ""))) await new Promise((done) => setTimeout(done, 50))
    }
    await within(60_000, isDecided(), "the enforcer's attempt")
    const prompts = (await call(baton, `/session/${id}/message`)).filter(({ info }) => info.role === "user")
    assert.deepEqual(prompts.map(({ info }) => Boolean(info.continues)), [false, true, true, true])
    const idles = events.tape.events.filter(({ type, properties }) => type === "session.idle" && properties.sessionID === id)
    assert.equal(idles.length, 1)
    const answers = model.calls.slice(since).filter(({ tools }) => tools?.length)
    assert.equal(answers.length, 5, "the list, its announcement and three continuations")
    await events.close()
  })

  test("forbids overwriting a file that was not read", async () => {
    const before = await readFile(path.join(baton.directory, "README.md"), "utf8")
    const { tools, calls } = await watched("please [overwrite]")
    // `tool.execute.before`
    const [write] = tools
    assert.deepEqual([write.tool, write.state.status], ["write", "error"])
    assert.match(write.state.error, /^File already exists\. Use edit tool instead\./)
    assert.match(JSON.stringify(calls.at(-1).messages), /File already exists\. Use edit tool instead/)
    assert.equal(await readFile(path.join(baton.directory, "README.md"), "utf8"), before)
  })
})
