// The gateway as users run it: a fake chat service, a server with a scripted model, and `baton channels` between them.

import assert from "node:assert/strict"
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdir, writeFile } from "node:fs/promises"
import net from "node:net"
import path from "node:path"
import { binary } from "./server.mjs"
import { within } from "./wait.mjs"

export const PATIENCE_MS = 60_000
const START_MS = 15_000
const running = new Set()
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")))

function start(program, args, options) {
  const child = spawn(program, args, options)
  running.add(child)
  child.ended = once(child, "exit").then((end) => running.delete(child) && end)
  return child
}

// The first line of a program's output that matches.
function line(child, pattern, what, log) {
  const found = new Promise((resolve, reject) => {
    let text = ""
    child.stdout.setEncoding("utf8").on("data", (more) => {
      text += more
      const match = pattern.exec(text)
      if (match) resolve(match)
    })
    child.on("error", reject)
    child.ended.then(([code]) => reject(new Error(`${what} ended early (${code}):\n${text}${log()}`)))
  })
  return within(START_MS, found, what, log)
}

// A proxy to a server that a test can close.
export class Gate {
  static async open(target) {
    const gate = new Gate()
    gate.target = new URL(target)
    gate.sockets = new Set()
    gate.isOpen = true
    gate.listener = net.createServer((socket) => gate.#join(socket))
    gate.listener.listen(0, "127.0.0.1")
    await once(gate.listener, "listening")
    gate.url = `http://127.0.0.1:${gate.listener.address().port}`
    return gate
  }

  #join(socket) {
    if (!this.isOpen) return socket.destroy()
    const there = net.connect(Number(this.target.port), this.target.hostname)
    for (const [one, other] of [[socket, there], [there, socket]]) {
      this.sockets.add(one)
      one.on("error", () => other.destroy())
      one.on("close", () => this.sockets.delete(one) && other.destroy())
      one.pipe(other)
    }
  }

  shut() {
    this.isOpen = false
    for (const socket of this.sockets) socket.destroy()
  }

  reopen() {
    this.isOpen = true
  }

  async stop() {
    this.shut()
    this.listener.close()
    await once(this.listener, "close")
  }
}

// The gateway, for a server that runs already.
export class Gateway {
  constructor({ world, address, channels, env = {} }) {
    Object.assign(this, { world, address, channels, env, log: "" })
  }

  async begin() {
    const { world } = this
    this.begun = this.log.length
    const config = path.join(world.home, "config", "opencode")
    await mkdir(config, { recursive: true })
    await writeFile(path.join(config, "baton.json"), JSON.stringify({ channels: this.channels }))
    const args = ["channels", "--data-dir", path.join(world.root, "channels"), "--attach", this.address]
    // A write beyond the size limit must fail instead of ending the process.
    const careful = ["-c", `trap '' XFSZ; exec "$0" "$@"`, binary]
    this.child = start("sh", [...careful, ...args, "--log-level", "debug"], {
      cwd: world.project,
      env: { ...world.env(), ...this.env },
      stdio: ["ignore", "pipe", "pipe"],
    })
    this.child.stderr.setEncoding("utf8").on("data", (text) => (this.log += text))
    await line(this.child, /^baton channels: .*$/m, "the gateway", () => this.log)
  }

  // Resolves when the log since the last start contains these words.
  async logged(words) {
    const found = new Promise((resolve) => {
      const look = () => this.log.slice(this.begun).includes(words) && resolve()
      this.child.stderr.on("data", look)
      look()
    })
    await within(PATIENCE_MS, found, `"${words}" in the log`, () => this.log.slice(-4_000))
  }

  // Runs a subcommand of `baton channels`.
  async run(...args) {
    const data = path.join(this.world.root, "channels")
    const { stdout, stderr, code } = await this.world.run(["channels", ...args, "--data-dir", data])
    assert.equal(code, 0, stderr)
    return stdout.trim()
  }

  // Limits the size of files that the gateway can write, as if the disk were full.
  limit(bytes) {
    execFileSync("prlimit", ["--pid", String(this.child.pid), `--fsize=${bytes}:`])
  }

  async kill() {
    this.child.kill("SIGKILL")
    await this.child.ended
  }

  async shutdown() {
    this.child.kill("SIGTERM")
    const [code] = await within(8_000, this.child.ended, "the gateway to stop", () => this.log)
    assert.equal(code, 0, this.log)
  }
}

// A port that no program uses now.
export async function freePort() {
  const probe = net.createServer().listen(0, "127.0.0.1")
  await once(probe, "listening")
  const { port } = probe.address()
  probe.close()
  await once(probe, "close")
  return port
}
