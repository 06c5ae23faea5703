// The process in which OpenCode's plugins run. Baton tells it which plugins to load and which hooks to call.
import { register } from "node:module"

import { Bun as bun, lacking } from "./bun.mjs"
import { createClient, markCalls } from "./client.mjs"
import { watchConsole } from "./console.mjs"
import { authorize, complete, methods } from "./logins.mjs"
import { entry, load } from "./plugins.mjs"
import * as providers from "./providers.mjs"
import { shell } from "./shell.mjs"
import { definition, execute } from "./tools.mjs"
import { Wire, describe } from "./wire.mjs"

/** Limit of event handlers that a plugin may have running. It misses events that come while it has more. */
const MAX_EVENTS = 1000

/** The plugins by number, with the hooks of all their exports. */
const plugins = new Map()
/** Running event handlers, and the time for which `dispose` waits for them. */
const handlers = new Set()
const LAST_EVENTS_MS = 300
const tools = new Map()
const calls = new Map()
let input

const { release, read, close } = providers
const wire = new Wire({
  ...{ ping: () => "pong", start, load: loadPlugin, config, hook, event, tool, cancel, dispose },
  "provider.models": ({ plugin, ...about }) => providers.models(hooksOf(plugin), about),
  "auth.loader": ({ plugin, ...about }) => providers.load(hooksOf(plugin), about, wire),
  "auth.authorize": ({ plugin, ...about }) => authorize(hooksOf(plugin), about),
  "auth.callback": complete,
  fetch: (about, number) => abortable(number, (abort) => providers.call(about, abort)),
  ...{ release, read, close },
})

if (!process.versions.bun) {
  register("./modules.mjs", import.meta.url)
  globalThis.Bun = bun
}
watchConsole((line) => wire.notify("log", line))
// A failure in one plugin's background task must not end the process of all plugins.
process.on("unhandledRejection", (error) => report("a background task", error))
process.on("uncaughtException", (error) => report("a background task", error))

await wire.listen()
await Promise.race([dispose(), new Promise((resolve) => setTimeout(resolve, 1000))])
process.exit(0)

function report(where, error, plugin) {
  wire.notify("report", { plugin, where, message: describe(error) })
}

/** Sets the input that every plugin receives. */
async function start({ directory, worktree, project, serverUrl, authorization, version }) {
  const headers = authorization ? { authorization } : {}
  markCalls(serverUrl)
  // Not earlier: a runtime executes files of the directory in which it is started.
  process.chdir(directory)
  input = {
    client: await createClient({ baseUrl: serverUrl, directory, headers }),
    project,
    directory,
    worktree,
    serverUrl: new URL(serverUrl),
    $: process.versions.bun ? Bun.$.cwd(directory) : shell({ cwd: directory }),
    experimental_workspace: { register() {} },
  }
  return { runtime: process.versions.bun ? `bun ${Bun.version}` : `node ${process.versions.node}`, version }
}

async function loadPlugin({ plugin, url, ...about }) {
  const file = entry(url)
  const hooks = await load({ ...about, file }, input)
  plugins.set(plugin, { hooks, running: 0, isBehind: false })
  const brought = hooks.flatMap((unit) => Object.entries(unit.tool ?? {}))
  const definitions = []
  for (const [id, tool] of brought) {
    tools.set(`${plugin}/${id}`, tool)
    definitions.push(await definition(id, tool))
  }
  const names = new Set(hooks.flatMap((unit) => Object.keys(unit).filter((name) => unit[name] !== undefined)))
  const lacks = process.versions.bun ? [] : lacking(file)
  return { hooks: [...names], tools: definitions, ...providers.shaped(hooks), methods: methods(hooks), lacks }
}

function hooksOf(plugin) {
  return plugins.get(plugin)?.hooks ?? []
}

/** Calls a plugin's `config` hooks. */
async function config({ plugin, config }) {
  for (const unit of hooksOf(plugin)) await unit.config?.(config)
  return config
}

/** Calls a plugin's hooks of one kind, which change the output. */
async function hook({ plugin, name, input, output }) {
  for (const unit of hooksOf(plugin)) await unit[name]?.(input, output)
  return output
}

/** Passes an event to all plugins, without waiting for their handlers. */
function event(event) {
  for (const [number, plugin] of plugins) {
    for (const unit of plugin.hooks) if (typeof unit.event === "function") follow(tell(number, plugin, unit, event))
  }
}

function follow(handler) {
  handlers.add(handler)
  handler.finally(() => handlers.delete(handler))
}

async function tell(number, plugin, unit, event) {
  if (plugin.running >= MAX_EVENTS) {
    if (!plugin.isBehind) report("event", new Error("it handles events too slowly and misses some"), number)
    plugin.isBehind = true
    return
  }
  plugin.running += 1
  try {
    await unit.event({ event: structuredClone(event) })
  } catch (error) {
    report("event", error, number)
  } finally {
    plugin.running -= 1
    plugin.isBehind &&= plugin.running > 0
  }
}

async function tool({ plugin, id, ...call }, number) {
  const tool = tools.get(`${plugin}/${id}`)
  if (!tool) throw new Error(`there is no tool ${id}`)
  return abortable(number, (abort) => execute(tool, call, wire, abort.signal))
}

/** Runs a call that `cancel` can abort. */
async function abortable(number, act) {
  const abort = new AbortController()
  calls.set(number, abort)
  try {
    return await act(abort)
  } finally {
    calls.delete(number)
  }
}

/** Aborts a call that Baton no longer waits for. */
function cancel({ id }) {
  calls.get(id)?.abort()
}

/** Waits briefly for running event handlers, then disposes all plugins. */
async function dispose() {
  await Promise.race([Promise.allSettled(handlers), new Promise((resolve) => setTimeout(resolve, LAST_EVENTS_MS))])
  for (const { hooks } of plugins.values()) for (const unit of hooks) await Promise.resolve(unit.dispose?.()).catch(() => {})
  plugins.clear()
}
