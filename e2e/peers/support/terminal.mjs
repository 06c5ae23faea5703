// A terminal for a program that draws on the whole screen: keys go in, the screen is read as text.

import { execFile } from "node:child_process"
import path from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { promisify } from "node:util"

const execute = promisify(execFile)
const GUARD_MS = 60_000
// The interval at which the screen is read, because tmux does not report changes.
const LOOK_MS = 50
const COLUMNS = 120
const LINES = 40

export class Terminal {
  // Starts a program. Its screen stays readable after it has ended.
  static async start(world, name, command, env) {
    const terminal = new Terminal(path.join(world.root, `${name}.tmux`), env)
    const size = ["-x", String(COLUMNS), "-y", String(LINES)]
    const keep = [";", "set-option", "remain-on-exit", "on"]
    await terminal.#tmux("-f", "/dev/null", "new-session", "-d", ...size, "-c", world.project, "--", ...command, ...keep)
    return terminal
  }

  constructor(socket, env) {
    this.socket = socket
    this.env = { ...env, TERM: "xterm-256color" }
  }

  async #tmux(...args) {
    const { stdout } = await execute("tmux", ["-S", this.socket, ...args], { env: this.env, timeout: GUARD_MS })
    return stdout
  }

  async screen() {
    return this.#tmux("capture-pane", "-p")
  }

  // Types text without pressing Enter.
  async type(text) {
    await this.#tmux("send-keys", "-l", "--", text)
  }

  // Presses keys, by tmux' names: Enter, Escape, Up, C-x, …
  async press(...keys) {
    await this.#tmux("send-keys", ...keys)
  }

  // The screen, as soon as it shows all given texts or patterns.
  async shows(wanted, { ms = GUARD_MS } = {}) {
    const all = [wanted].flat()
    return this.until((screen) => all.every((one) => contains(screen, one)), `the screen to show ${all.join(", ")}`, ms)
  }

  // The screen, as soon as it no longer shows this.
  async hides(unwanted, { ms = GUARD_MS } = {}) {
    return this.until((screen) => !contains(screen, unwanted), `${unwanted} to leave the screen`, ms)
  }

  async until(predicate, what, ms = GUARD_MS) {
    const deadline = Date.now() + ms
    for (;;) {
      const screen = await this.screen()
      if (predicate(screen)) return screen
      if (Date.now() > deadline) throw new Error(`waited ${ms} ms in vain for ${typeof what === "function" ? what() : what}; the screen:\n${screen}`)
      await pause(LOOK_MS)
    }
  }

  async stop() {
    await this.#tmux("kill-server").catch(() => {})
  }
}

const contains = (screen, wanted) => (wanted instanceof RegExp ? wanted.test(screen) : screen.includes(wanted))
