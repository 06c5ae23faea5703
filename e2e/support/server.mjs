// Starts and stops the real program, each time in its own world: a project, a home directory, a database.

import assert from "node:assert/strict"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { within } from "./wait.mjs"

// The program under test. `cargo xtask e2e` sets the path of the one that it has built.
export const binary = path.resolve(
  process.env.BATON_BIN ?? fileURLToPath(new URL("../../target/debug/baton", import.meta.url)),
)

// The files of every test's project. The scenario `read_edit` needs the last line.
const README = "# A project\n\nSomething to read.\n\nEnd of file.\n"

const LISTENING = /^(?:baton|opencode server) listening on (http:\/\/\S+)$/m
const START_MS = 10_000
const STOP_MS = 8_000
// Ends the servers that a test left running because it was ended itself.
const running = new Set()
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")))

// The environment of a server that lists these scripted models. Without it they can be used by name only, and chats
// offer only models that are listed.
export function listing(...names) {
  const models = Object.fromEntries(names.map((name) => [name, {}]))
  return { OPENCODE_CONFIG_CONTENT: JSON.stringify({ provider: { demo: { models } } }) }
}

// A directory tree for one server, and the environment that keeps it inside.
export class World {
  static async create() {
    assert.ok(existsSync(binary), `${binary} is missing: build it with \`cargo build -p cli\`, or set BATON_BIN`)
    const root = await realpath(await mkdtemp(path.join(tmpdir(), "baton-e2e-")))
    const world = new World(root)
    for (const folder of [world.project, world.home, world.data, world.bin]) await mkdir(folder)
    await writeFile(path.join(world.project, "README.md"), README)
    return world
  }

  constructor(root) {
    this.root = root
    this.project = path.join(root, "project")
    this.home = path.join(root, "home")
    this.data = path.join(root, "data")
    this.bin = path.join(root, "bin")
  }

  // Keeps out the environment of the user who runs the tests: keys, configuration, database.
  env(more = {}) {
    return {
      PATH: `${this.bin}${path.delimiter}${process.env.PATH}`,
      HOME: this.home,
      XDG_DATA_HOME: path.join(this.home, "share"),
      XDG_CONFIG_HOME: path.join(this.home, "config"),
      XDG_STATE_HOME: path.join(this.home, "state"),
      XDG_CACHE_HOME: path.join(this.home, "cache"),
      TMPDIR: this.root,
      LANG: "C.UTF-8",
      ...more,
    }
  }

  // Runs the program to its end.
  async run(args, { env, cwd = this.project } = {}) {
    const child = spawn(binary, args, { cwd, env: this.env(env), stdio: ["ignore", "pipe", "pipe"] })
    running.add(child)
    const output = collect(child)
    const [code, signal] = await within(60_000, once(child, "close"), `\`baton ${args.join(" ")}\` to end`)
    running.delete(child)
    return { code, signal, ...output }
  }

  // Runs `baton trust`; without arguments it trusts the project.
  async trust(...args) {
    const { code, stdout, stderr } = await this.run(["trust", "--data-dir", this.data, ...args])
    assert.equal(code, 0, stderr)
    return stdout.trim()
  }

  // Writes the user's own `baton.json`.
  async configure(own) {
    const folder = path.join(this.home, "config/opencode")
    await mkdir(folder, { recursive: true })
    await writeFile(path.join(folder, "baton.json"), JSON.stringify(own))
  }

  async remove() {
    await rm(this.root, { recursive: true, force: true })
  }
}

// A running server.
export class Baton {
  // `files` is the number of files that the process may open.
  static async start({ world, port = 0, args = [], env = {}, files } = {}) {
    const baton = new Baton(world ?? (await World.create()), { args, env, files })
    await baton.begin(port)
    return baton
  }

  constructor(world, options) {
    this.world = world
    this.options = options
    this.directory = world.project
    // The output of all processes of this server, for the messages of failed tests.
    this.stderr = ""
  }

  async begin(port = this.port) {
    const { args, env, files } = this.options
    const limit = files ? ["/bin/sh", "-c", `ulimit -n ${files} && exec "$@"`, "sh"] : []
    const serve = [binary, "serve", "--port", String(port), "--data-dir", this.world.data, ...args]
    const [program, ...command] = [...limit, ...serve]
    const child = spawn(program, command, {
      cwd: this.world.project,
      env: this.world.env(env),
      stdio: ["ignore", "pipe", "pipe"],
    })
    running.add(child)
    this.child = child
    this.exit = once(child, "exit").then(([code, signal]) => {
      running.delete(child)
      return { code, signal }
    })
    child.stderr.setEncoding("utf8").on("data", (text) => (this.stderr += text))
    const line = new Promise((resolve, reject) => {
      let stdout = ""
      child.stdout.setEncoding("utf8").on("data", (text) => {
        stdout += text
        const found = LISTENING.exec(stdout)
        if (found) resolve(found[1])
      })
      child.on("error", reject)
      this.exit.then(({ code, signal }) => {
        reject(new Error(`the server ended before it listened (${signal ?? code}):\n${stdout}${this.stderr}`))
      })
    })
    this.url = await within(START_MS, line, "the line that says where the server listens", () => this.stderr)
    this.port = Number(new URL(this.url).port)
  }

  // Stops the server and checks that it exits cleanly. `begin` starts it again.
  async shutdown() {
    this.child.kill("SIGTERM")
    const { code, signal } = await within(STOP_MS, this.exit, "the server to stop", () => this.stderr)
    assert.deepEqual({ code, signal }, { code: 0, signal: null }, `SIGTERM should end it cleanly:\n${this.stderr}`)
  }

  // Kills the server.
  async kill() {
    this.child.kill("SIGKILL")
    await this.exit
  }

  // Stops the server and leaves nothing behind.
  async stop() {
    if (this.child.exitCode === null && this.child.signalCode === null) await this.shutdown()
    await this.world.remove()
  }

  // A call without any SDK. Paths are relative to the server.
  fetch(target, init) {
    return fetch(new URL(target, this.url), init)
  }
}

function collect(child) {
  const output = { stdout: "", stderr: "" }
  for (const name of ["stdout", "stderr"]) {
    child[name].setEncoding("utf8").on("data", (text) => (output[name] += text))
  }
  return output
}
