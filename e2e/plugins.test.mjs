// OpenCode's plugins, unmodified: loading, hooks, tools, events and trust. Also turns with plugins that
// misbehave.

import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import { existsSync } from "node:fs"
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { MODULES, RUNTIME, configureUser, notes, pluginWorld, putPlugins } from "./support/plugins.mjs"
import { ask, ok, textOf, v1 } from "./support/sdk.mjs"
import { Baton, World } from "./support/server.mjs"
import { listen } from "./support/stream.mjs"
import { idlePairs } from "./support/tape.mjs"
import { within } from "./support/wait.mjs"

const HELLO = "Hello from the demo model. All is well."

// Scenarios that call the tools that plugins add or change.
const SCENARIOS = {
  weigh: {
    about: "calls a plugin's tool",
    steps: [
      [{ do: "tool", name: "weigh", input: { thing: "stone" } }, { do: "finish", reason: "tool-calls" }],
      [{ do: "text", text: "Weighed." }, { do: "finish", reason: "stop" }],
    ],
  },
  gold: {
    about: "calls a plugin's tool that asks",
    steps: [
      [{ do: "tool", name: "weigh", input: { thing: "gold" } }, { do: "finish", reason: "tool-calls" }],
      [{ do: "text", text: "Weighed." }, { do: "finish", reason: "stop" }],
    ],
  },
  shell: {
    about: "runs a command",
    steps: [
      [{ do: "text", text: "Listing." }, { do: "tool", name: "bash", input: { command: "ls" } }, { do: "finish", reason: "tool-calls" }],
      [{ do: "text", text: "Listed." }, { do: "finish", reason: "stop" }],
    ],
  },
}

async function start(world, { args = [], ...more } = {}) {
  const scenarios = path.join(world.root, "scenarios.json")
  await writeFile(scenarios, JSON.stringify(SCENARIOS))
  return Baton.start({ world, args: ["--scenario-file", scenarios, "--print-logs", ...args], ...more })
}

const bodies = {
  promptAsync: ask,
  command: (model, text) => ({ command: text, arguments: "", model: `demo/${model}` }),
}

// Runs a prompt and resolves when the turn is over; the events since the stream was opened stay on the tape.
async function turn(sdk, events, model, text = "hello", query, begin = "promptAsync") {
  const { id } = await ok(sdk.client.session.create({ query }))
  await ok(sdk.client.session[begin]({ path: { id }, body: bodies[begin](model, text), query }))
  await events.tape.idle(id, 1, { ms: 60_000 })
  return id
}

const tools = (messages) => messages.flatMap(({ parts }) => parts).filter((part) => part.type === "tool")

describe("a plugin of the user", () => {
  let baton, sdk, events
  before(async () => {
    const world = await pluginWorld()
    const folder = await configureUser(world, {
      plugin: [["./mine/probe.ts", { level: 3 }]],
      permission: { weigh: "ask" },
    })
    await putPlugins(path.join(folder, "mine"), "probe.ts", "lib")
    baton = await start(world)
    sdk = v1(baton)
    events = await listen(baton)
  })
  after(async () => {
    await events?.close()
    await baton?.stop()
  })
  const noted = async (name) => (await notes(baton.directory)).filter((note) => note.name === name)

  test("receives its directory and its options", async () => {
    await ok(sdk.agents())
    const [start] = await noted("start")
    assert.deepEqual(start.options, { level: 3 })
    assert.equal(start.port, String(baton.port))
    assert.equal(start.project, "global")
  })

  test("changes the configuration", async () => {
    const agents = await ok(sdk.agents())
    assert.ok(agents.some((agent) => agent.name === "prober"))
    const commands = await ok(sdk.client.command.list())
    assert.ok(commands.some((command) => command.name === "probed"))
  })

  test("changes prompts and answers", async () => {
    const id = await turn(sdk, events, "simple")
    const [prompt, answer] = await ok(sdk.messages(id))
    assert.equal(textOf(prompt), "hello [asked]")
    assert.equal(textOf(answer), `${HELLO} [complete]`)
    for (const name of ["chat.message", "chat.params", "messages.transform", "system.transform", "text.complete"]) {
      assert.ok((await noted(name)).length > 0, `${name} was called`)
    }
    assert.equal(idlePairs(events.tape.of(id)).get(id), 1)
  })

  test("changes a command and its output", async () => {
    const id = await turn(sdk, events, "shell")
    const [call] = tools(await ok(sdk.messages(id)))
    assert.equal(call.state.input.command, "echo from the plugin")
    assert.match(call.state.output, /^from the plugin\n? \[seen\]$/)
    assert.equal((await noted("shell.env")).length, 1)
  })

  test("adds a tool", async () => {
    const all = await ok(sdk.client.tool.list({ query: { provider: "demo", model: "weigh" } }))
    const about = all.find((tool) => tool.id === "weigh")
    assert.equal(about.description, "Weighs a thing")
    assert.deepEqual(about.parameters.properties.thing, { type: "string", description: "What to weigh" })
    const id = await turn(sdk, events, "weigh")
    const messages = await ok(sdk.messages(id))
    const [call] = tools(messages)
    assert.equal(call.state.output.replace(" [seen]", ""), "a stone; $HOME weighs 2")
    assert.deepEqual([call.state.title, call.state.metadata.kind], ["scales", "weight"])
    const [weighed] = await noted("weigh")
    assert.equal(weighed.sessionID, id)
    assert.equal(weighed.messageID, call.messageID)
    assert.equal(weighed.directory, baton.directory)
  })

  test("asks the user, whose refusal ends the turn", async () => {
    const { id } = await ok(sdk.create())
    await ok(sdk.promptAsync(id, ask("gold")))
    const { properties } = await events.tape.type("permission.asked", id)
    assert.deepEqual([properties.permission, properties.patterns], ["weigh", ["gold"]])
    await ok(sdk.permission(properties, "reject"))
    await events.tape.idle(id)
    const [call] = tools(await ok(sdk.messages(id)))
    assert.equal(call.state.status, "error")
  })

  test("receives events in order", async () => {
    const id = await turn(sdk, events, "simple")
    const wanted = events.tape.of(id).map((event) => event.id)
    let heard
    const isTold = async () => {
      do {
        heard = (await noted("event")).map((note) => note.id).filter((note) => wanted.includes(note))
      } while (heard.length < wanted.length)
    }
    await within(20_000, isTold(), "the last event", () => `${heard.length} of ${wanted.length}`)
    assert.deepEqual(heard, wanted)
  })

  test("is disposed when the server stops", async () => {
    await events.close()
    await baton.shutdown()
    assert.equal((await noted("dispose")).length, 1)
  })
})

describe("a plugin of a project", () => {
  test("runs only where the user trusts the project, and clients are notified once", async () => {
    const world = await pluginWorld()
    await putPlugins(path.join(world.project, ".opencode/plugin"), "probe.ts", "lib")
    const baton = await start(world)
    const [sdk, events] = [v1(baton), await listen(baton)]
    try {
      const answer = async () => textOf((await ok(sdk.messages(await turn(sdk, events, "simple"))))[1])
      assert.deepEqual([await answer(), await answer()], [HELLO, HELLO])
      const errors = () => events.tape.events.filter((event) => event.type === "session.error")
      assert.equal(errors().length, 1)
      const { sessionID, error } = errors()[0].properties
      assert.equal(sessionID, undefined)
      assert.match(error.data.message, /this directory is not trusted.*probe\.ts.*`baton trust .*project`/)
      assert.deepEqual(await notes(baton.directory), [])

      assert.match(await world.trust(), /is now trusted/)
      await answer()
      const names = async () => (await notes(baton.directory)).map((note) => note.name)
      assert.ok((await names()).includes("start"))

      assert.match(await world.trust("--revoke", "."), /is no longer trusted$/)
      await answer()
      assert.ok((await names()).includes("dispose"), "it is disposed")
    } finally {
      await events.close()
      await baton.stop()
    }
  })
})

describe("an ordinary plugin", () => {
  test("commits the changes of a turn, once", async () => {
    const world = await pluginWorld()
    await putPlugins(path.join(await configureUser(world, {}), "plugins"), "auto-commit.ts")
    const git = (...args) => execFileSync("git", args, { cwd: world.project, env: world.env(), encoding: "utf8" })
    git("init", "--quiet", "--initial-branch=main")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    git("add", ".")
    git("commit", "--quiet", "--message", "A project")
    const baton = await start(world)
    const [sdk, events] = [v1(baton), await listen(baton)]
    try {
      await turn(sdk, events, "read_edit", "add a line")
      const isCommitted = async () => {
        while (git("rev-list", "--count", "HEAD").trim() !== "2") await new Promise((done) => setTimeout(done, 20))
      }
      await within(20_000, isCommitted(), "a commit")
      assert.match(git("log", "-1", "--format=%B"), /^add a line\n\n## Prompt\nadd a line\n\n## Answer\n[^]*Done! I added one line/)
      assert.equal(git("status", "--porcelain"), "")
    } finally {
      await events.close()
      await baton.stop()
    }
  })

  test("reminds the model of open todos with a stored message", async () => {
    const world = await pluginWorld()
    const folder = await configureUser(world, { plugin: [["./open-todos.ts", { title: "OPEN" }]] })
    // Disables continuations, which would also keep the turn going.
    await writeFile(path.join(world.project, "baton.json"), JSON.stringify({ continuation: { enabled: false } }))
    await putPlugins(folder, "open-todos.ts")
    const baton = await start(world)
    const [sdk, events] = [v1(baton), await listen(baton)]
    try {
      const { id } = await ok(sdk.create())
      const last = await ok(sdk.prompt(id, ask("todo")))
      const reminder = "\n\n[OPEN]\n- [ ] Second thing (in_progress)\n- [ ] Third thing (pending)"
      assert.equal(textOf(last), `The list is written. I stop here.${reminder}`)
    } finally {
      await events.close()
      await baton.stop()
    }
  })
})

describe("a plugin beside Baton's continuation", () => {
  const started = async (...plugins) => {
    const world = await pluginWorld()
    await putPlugins(path.join(await configureUser(world, {}, {}), "plugins"), ...plugins)
    return start(world)
  }

  test("that wants to continue a stopped session is held back: one continuation, one idle", async () => {
    const baton = await started("enforcer.js")
    const [sdk, events] = [v1(baton), await listen(baton)]
    try {
      const id = await turn(sdk, events, "todo")
      // The plugin's other prompt is a turn of its own, and gives no round back.
      await events.tape.idle(id, 2, { ms: 60_000 })
      const noted = await notes(baton.directory)
      assert.deepEqual(noted.map(({ name, status }) => [name, status]), [["pushed", 409], ["found", 204]])
      assert.match(noted[0].error.message, /does not continue before the user's next prompt: no progress in the last rounds/)
      const prompts = (await ok(sdk.messages(id))).filter(({ info }) => info.role === "user")
      assert.deepEqual(prompts.map(({ info }) => Boolean(info.continues)), [false, true, true, true, false])
      assert.deepEqual(prompts.at(-1).info.origin, { type: "plugin" })
      const { tape } = events
      const kinds = tape.of(id).map(({ type }) => type).filter((type) => /^continuation/.test(type))
      assert.deepEqual(kinds, [...Array(3).fill("continuation.started"), "continuation.stopped"])
    } finally {
      await events.close()
      await baton.stop()
    }
  })

  test("finds the last turn of the user, also with the flat form of arguments, and prints to the log", async () => {
    const world = await pluginWorld()
    await putPlugins(path.join(await configureUser(world, {}), "plugins"), "last-turn.ts")
    const git = (...args) => execFileSync("git", args, { cwd: world.project, encoding: "utf8", env: world.env() })
    git("init", "--quiet", "--initial-branch=main")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    git("commit", "--quiet", "--allow-empty", "--message", "A project")
    const baton = await start(world, { args: ["--log-level", "debug"] })
    const [sdk, events] = [v1(baton), await listen(baton)]
    try {
      await turn(sdk, events, "todo", "plan this")
      const isCommitted = async () => {
        while (git("rev-list", "--count", "HEAD").trim() !== "2") await new Promise((done) => setTimeout(done, 20))
      }
      await within(20_000, isCommitted(), "a commit")
      assert.match(git("log", "-1", "--format=%B"), /^plan this\n\n## Answer\n[^]*The list is written/)
      assert.match(baton.stderr, /DEBUG[^\n]*User prompt: plan this/)
    } finally {
      await events.close()
      await baton.stop()
    }
  })
})

describe("a plugin without installed packages", () => {
  // A world whose installer waits until the test releases it.
  const slow = async (plugin) => {
    const world = await World.create()
    await symlink(process.execPath, path.join(world.bin, "node"))
    const go = path.join(world.root, "go")
    execFileSync("mkfifo", [go])
    await writeFile(path.join(world.bin, "npm"), `#!/bin/sh\nread _ < "${go}"\nln -s "${MODULES}" node_modules\n`, { mode: 0o755 })
    const folder = await configureUser(world, { plugin: [plugin] })
    await putPlugins(folder, "guard.js", "open-todos.ts")
    return { world, go: () => writeFile(go, "now\n") }
  }
  const commands = async (sdk, id) => tools(await ok(sdk.messages(id))).map(({ state }) => state.error)

  test("guards at once if it is plain JavaScript", async () => {
    const { world, go } = await slow("./guard.js")
    const baton = await start(world)
    const [sdk, events] = [v1(baton), await listen(baton)]
    try {
      const id = await turn(sdk, events, "shell")
      assert.deepEqual(await commands(sdk, id), ["No commands here"])
      const { options, ...about } = JSON.parse(await readFile(path.join(baton.directory, "guard.json"), "utf8"))
      assert.deepEqual(about, { tool: "string", none: null, agent: "1" })
      await go()
      assert.deepEqual(await commands(sdk, await turn(sdk, events, "shell")), ["No commands here"])
    } finally {
      await events.close()
      await baton.stop()
    }
  })

  test("is named in a warning while a turn runs without it", async () => {
    const { world, go } = await slow("./open-todos.ts")
    const baton = await start(world)
    const [sdk, events] = [v1(baton), await listen(baton)]
    try {
      await turn(sdk, events, "simple")
      const warnings = events.tape.events.filter(({ type }) => type === "session.error").map(({ properties }) => properties.error.data.message)
      assert.ok(warnings.some((text) => /the plugin .*open-todos\.ts is still being installed/.test(text)), `${warnings}`)
    } finally {
      await go()
      await events.close()
      await baton.stop()
    }
  })

  test("is installed when `baton trust` returns", async () => {
    const { world, go } = await slow("./guard.js")
    await putPlugins(path.join(world.project, ".opencode/plugin"), "open-todos.ts")
    const [said] = await Promise.all([world.trust(), go()])
    assert.match(said, /is now trusted/)
    assert.ok(existsSync(path.join(world.data, RUNTIME, "node_modules/@opencode-ai/plugin/package.json")))
    await world.remove()
  })

  test("that is required holds the turn until it is loaded", async () => {
    const { world, go } = await slow(["./open-todos.ts", { "baton.required": true }])
    const baton = await start(world)
    const [sdk, events] = [v1(baton), await listen(baton)]
    try {
      const { id } = await ok(sdk.create())
      const prompted = sdk.prompt(id, ask("simple"))
      await go()
      assert.equal(textOf(await ok(prompted)), HELLO)
      const warnings = events.tape.events.filter(({ type }) => type === "session.error")
      assert.deepEqual(warnings, [])
    } finally {
      await events.close()
      await baton.stop()
    }
  })
})

describe("a package that was written for Bun", () => {
  // Uses `require` in a module, `Bun.which`, and a function that only Bun has.
  const METER = `
    import { writeFileSync } from "node:fs"
    const { version } = require("../package.json")
    export const Meter = async ({ directory }) => {
      const about = { version, folder: import.meta.dir.endsWith("dist"), found: Bun.which("sh") !== null }
      writeFileSync(directory + "/meter.json", JSON.stringify(about))
      return { event: async () => globalThis.never && Bun.serve({}) }
    }`

  test("has `require` and `Bun.which` on Node, and is named if it asks for more of Bun", async () => {
    const world = await pluginWorld()
    await configureUser(world, { plugin: ["meter@1.2.3"] })
    const folder = path.join(world.data, "cache/plugins/packages/meter+1.2.3/node_modules/meter")
    await mkdir(path.join(folder, "dist"), { recursive: true })
    await writeFile(path.join(folder, "package.json"), JSON.stringify({ name: "meter", version: "1.2.3", type: "module", main: "dist/index.js" }))
    await writeFile(path.join(folder, "dist/index.js"), METER)
    const baton = await start(world)
    const [sdk, events] = [v1(baton), await listen(baton)]
    try {
      await turn(sdk, events, "simple")
      const about = JSON.parse(await readFile(path.join(baton.directory, "meter.json"), "utf8"))
      assert.deepEqual(about, { version: "1.2.3", folder: true, found: true })
      const isNode = !execFileSync("sh", ["-c", "command -v bun || true"], { encoding: "utf8", env: world.env() }).trim()
      if (isNode) assert.match(baton.stderr, /1 plugin asks for Bun: meter@1\.2\.3 \(Bun\.serve\)/)
    } finally {
      await events.close()
      await baton.stop()
    }
  })
})

describe("a plugin in `baton run`, without a server", () => {
  const run = (world, ...args) => world.run(["run", "hello", "--model", "demo/simple", "--data-dir", world.data, ...args])

  test("is loaded, changes the turn, calls the program that runs it, and is disposed", async () => {
    const world = await pluginWorld()
    const folder = await configureUser(world, { plugin: [["./mine/probe.ts", { level: 3 }]] })
    await putPlugins(path.join(folder, "mine"), "probe.ts", "lib")
    const { code, stdout, stderr } = await run(world)
    assert.deepEqual([code, stdout], [0, `${HELLO} [complete]\n`], stderr)
    const noted = await notes(world.project)
    const names = new Set(noted.map((note) => note.name))
    for (const name of ["start", "chat.message", "chat.params", "text.complete", "event", "dispose"]) {
      assert.ok(names.has(name), `${name} was called: ${[...names]}`)
    }
    assert.ok(Number(noted.find(({ name }) => name === "start").port) > 0)
    await world.remove()
  })

  test("that rewrites the answer takes effect, and a pipe gets only the rewritten text", async () => {
    const world = await pluginWorld()
    await putPlugins(path.join(await configureUser(world, {}), "plugins"), "rewrite.js")
    const { code, stdout, stderr } = await run(world)
    assert.deepEqual([code, stdout], [0, `${HELLO.toUpperCase()}\n`], stderr)
    await world.remove()
  })

  test("of an untrusted project is not run, with a warning; and without plugins no port is opened", async () => {
    const world = await pluginWorld()
    const plain = await run(world, "--print-logs")
    assert.deepEqual([plain.code, plain.stdout], [0, `${HELLO}\n`], plain.stderr)
    assert.doesNotMatch(plain.stderr, /listening/)
    await putPlugins(path.join(world.project, ".opencode/plugin"), "rewrite.js")
    const { code, stdout, stderr } = await run(world)
    assert.deepEqual([code, stdout], [0, `${HELLO}\n`], stderr)
    assert.match(stderr, /this directory is not trusted.*rewrite\.js.*`baton trust/)
    await world.remove()
  })
})

describe("a misbehaving plugin", () => {
  const HOOKS = [
    "config",
    "chat.message",
    "chat.params",
    "chat.headers",
    "tool.execute.before",
    "tool.execute.after",
    "tool.definition",
    "shell.env",
    "experimental.chat.messages.transform",
    "experimental.chat.system.transform",
    "experimental.provider.small_model",
    "experimental.text.complete",
    "turn.end",
    "event",
    "permission.ask",
    "command.execute.before",
    "experimental.session.compacting",
    "experimental.compaction.autocontinue",
  ]
  // Hooks that an ordinary turn does not call, with a turn that does.
  const compacts = { model: "context_overflow", says: /^I know enough from the summary/ }
  const SCENES = {
    "permission.ask": { config: { permission: { bash: "ask" } } },
    "command.execute.before": { config: { command: { list: { template: "list" } } }, begin: "command" },
    "experimental.session.compacting": compacts,
    "experimental.compaction.autocontinue": compacts,
  }
  // Errors of hooks that throw or hang name the hook; a plugin that ends the process is reported as that.
  // Throwing before a tool forbids the call.
  const isTold = (how, hook) =>
    ["throws", "hangs"].includes(how) && !["config", "event"].includes(hook) && `${how} ${hook}` !== "throws tool.execute.before"
  let baton, sdk
  before(async () => {
    const world = await pluginWorld()
    const folder = await configureUser(world, { plugin: ["./trouble.js"] }, { limits: { hook_seconds: 0.5 } })
    await putPlugins(folder, "trouble.js")
    baton = await start(world)
    sdk = v1(baton)
  })
  after(() => baton?.stop())

  for (const how of ["throws", "hangs", "spins", "exits", "floods"]) {
    test(`${how} in any of its hooks, and every turn still ends with one idle`, async () => {
      const failing = HOOKS.map(async (hook) => {
        const { model = "shell", says = /^Listed\./, begin, config = {} } = SCENES[hook] ?? {}
        const directory = path.join(baton.directory, `${how}-${hook}`)
        await mkdir(directory)
        await writeFile(path.join(directory, "opencode.json"), JSON.stringify(config))
        await writeFile(path.join(directory, "trouble.json"), JSON.stringify({ hook, how }))
        const query = { directory }
        const events = await listen(baton, { target: `/event?directory=${encodeURIComponent(directory)}` })
        const asked = config.permission && events.tape.type("permission.asked", undefined, { ms: 60_000 })
        const answered = asked?.then(({ properties }) => ok(sdk.permission(properties, "once")))
        const [id] = await Promise.all([turn(sdk, events, model, "list", query, begin), answered])
        const messages = await ok(sdk.client.session.messages({ path: { id }, query }))
        assert.match(textOf(messages.at(-1)), says, `${how} in ${hook}`)
        assert.equal(idlePairs(events.tape.of(id)).get(id), 1, `${how} in ${hook}`)
        if (isTold(how, hook)) {
          const told = events.tape.events.filter(({ type, properties }) => type === "session.error" && !properties.sessionID)
          const words = told.map(({ properties }) => properties.error.data.message)
          assert.ok(words.some((message) => message.includes(`failed in its hook ${hook}`)), `${how} in ${hook}: ${words}`)
        }
        await events.close()
      })
      await Promise.all(failing)
    })
  }
})

describe("a configuration with a missing plugin", () => {
  test("is reported, and everything else works", async () => {
    const world = await pluginWorld()
    await configureUser(world, { plugin: ["./missing.ts", "../no name"] })
    const baton = await start(world)
    const [sdk, events] = [v1(baton), await listen(baton)]
    try {
      const id = await turn(sdk, events, "simple")
      assert.equal(textOf((await ok(sdk.messages(id)))[1]), HELLO)
      assert.match(baton.stderr, /missing\.ts cannot be loaded/)
      await readFile(path.join(baton.directory, "README.md"))
    } finally {
      await events.close()
      await baton.stop()
    }
  })
})
