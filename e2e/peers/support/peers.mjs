// OpenCode's own program, and the environment that it shares with Baton: the same project, configuration and scripted model.

import assert from "node:assert/strict"
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { writeFile } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import { Baton, World } from "../../support/server.mjs"
import { within } from "../../support/wait.mjs"
import { MAIN, SMALL } from "./model.mjs"

// `cargo xtask peers` sets the path of the OpenCode that it has installed.
const PROGRAM = process.env.OPENCODE_BIN

// OpenCode may only run where it has no network except loopback.
export function requireSealed() {
  const open = Object.keys(os.networkInterfaces()).filter((name) => name !== "lo")
  assert.deepEqual(open, [], "run this with `cargo xtask peers`: peers start only where there is no network")
  assert.ok(PROGRAM, "OPENCODE_BIN is not set: run this with `cargo xtask peers`")
}

// Disables downloads, telemetry, sharing and updates.
const QUIET = {
  OPENCODE_DISABLE_AUTOUPDATE: "true",
  OPENCODE_DISABLE_MODELS_FETCH: "true",
  OPENCODE_DISABLE_SHARE: "true",
  OPENCODE_DISABLE_LSP_DOWNLOAD: "true",
  OPENCODE_DISABLE_DEFAULT_PLUGINS: "true",
  OPENCODE_DISABLE_EXTERNAL_SKILLS: "true",
  OPENCODE_DISABLE_CLAUDE_CODE: "true",
  OPENCODE_DISABLE_EMBEDDED_WEB_UI: "true",
  DO_NOT_TRACK: "1",
}

// The directory with the packages of the peers.
export const modules = path.resolve(PROGRAM ?? "", "../../..")

// A world whose project both servers understand.
export async function createWorld(model, world) {
  requireSealed()
  return furnish(world ?? (await World.create()), model)
}

// Puts a project and its configuration into a world.
export async function furnish(world, model) {
  const limit = { context: 100_000, output: 4_000 }
  const config = {
    $schema: "https://opencode.ai/config.json",
    model: `scripted/${MAIN}`,
    small_model: `scripted/${SMALL}`,
    autoupdate: false,
    share: "disabled",
    enabled_providers: ["scripted"],
    permission: { bash: { "touch *": "ask" } },
    command: { greet: { template: "Say hello: $ARGUMENTS", description: "Says hello" } },
    provider: {
      scripted: {
        npm: "@ai-sdk/openai-compatible",
        name: "Scripted",
        options: { baseURL: model.url, apiKey: "not-a-key" },
        models: {
          [MAIN]: { name: "Main", limit, tool_call: true, reasoning: true, cost: { input: 1, output: 2 } },
          [SMALL]: { name: "Small", limit, tool_call: true },
        },
      },
    },
  }
  await writeFile(path.join(world.project, "opencode.json"), JSON.stringify(config, null, 2))
  const git = (...args) => execFileSync("git", args, { cwd: world.project, env: world.env(), stdio: "ignore" })
  git("init", "--quiet", "--initial-branch=main")
  git("add", ".")
  git("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "--quiet", "--message", "A project")
  return world
}

export const environment = (world, more = {}) => world.env({ ...QUIET, ...more })

// The line with which OpenCode prints its address.
const LISTENING = /^opencode server listening on (http:\/\/\S+)$/m
const START_MS = 30_000
// Between this line and its first answer, OpenCode may accept a call and never answer it, so each attempt is short.
const PROBE_MS = 1_000

// OpenCode's own server.
export class OpenCode {
  static async start(model, { world, env } = {}) {
    const server = new OpenCode()
    server.world = world ?? (await createWorld(model))
    server.directory = server.world.project
    const [program, ...args] = opencode("serve", "--hostname", "127.0.0.1", "--port", "0")
    const stdio = ["ignore", "pipe", "pipe"]
    server.child = spawn(program, args, { cwd: server.directory, env: environment(server.world, env), stdio })
    server.exit = once(server.child, "exit")
    server.output = ""
    const line = new Promise((resolve, reject) => {
      for (const stream of [server.child.stdout, server.child.stderr]) {
        stream.setEncoding("utf8").on("data", (text) => {
          server.output += text
          const found = LISTENING.exec(server.output)
          if (found) resolve(found[1])
        })
      }
      server.exit.then(([code]) => reject(new Error(`OpenCode ended (${code}):\n${server.output}`)))
    })
    process.once("exit", () => server.child.kill("SIGKILL"))
    server.url = await within(START_MS, line, "OpenCode to listen", () => server.output)
    await within(START_MS, server.#answers(), "OpenCode to answer", () => server.output)
    return server
  }

  async #answers() {
    for (;;) {
      const probe = this.fetch("/session", { signal: AbortSignal.timeout(PROBE_MS) })
      const answered = await probe.then((response) => response.ok && response.json()).catch(() => undefined)
      if (answered) return
    }
  }

  fetch(target, init) {
    return fetch(new URL(target, this.url), init)
  }

  async stop() {
    this.child.kill("SIGKILL")
    await this.exit
    await this.world.remove()
  }
}

export const startBaton = async (model, options = {}) =>
  Baton.start({ ...options, world: options.world ?? (await createWorld(model)) })

// The command that starts OpenCode with these arguments.
export const opencode = (...args) => [PROGRAM, ...args]

// Runs OpenCode to its end.
export async function run(world, args, { ms = 60_000, input } = {}) {
  const [program, ...rest] = opencode(...args)
  const stdio = [input === undefined ? "ignore" : "pipe", "pipe", "pipe"]
  const child = spawn(program, rest, { cwd: world.project, env: environment(world), stdio })
  const output = { stdout: "", stderr: "" }
  for (const name of ["stdout", "stderr"]) {
    child[name].setEncoding("utf8").on("data", (text) => (output[name] += text))
  }
  child.stdin?.end(input)
  try {
    const what = `\`opencode ${args.join(" ")}\` to end`
    const [code, signal] = await within(ms, once(child, "close"), what, () => JSON.stringify(output))
    return { code, signal, ...output }
  } finally {
    child.kill("SIGKILL")
  }
}
