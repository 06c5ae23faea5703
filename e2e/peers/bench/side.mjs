// A server under measurement: starts it in a world of its own, prompts it over kept connections, and reads its event
// stream, its memory and its CPU time. Both servers are measured by the same code.

import { spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import http from "node:http"
import { binary } from "../../support/server.mjs"
import { within } from "../../support/wait.mjs"
import { createWorld, environment, opencode } from "../support/peers.mjs"

const LISTENING = /^(?:baton|opencode server) listening on (http:\/\/\S+)$/m
const START_MS = 60_000
// OpenCode accepts calls before it answers them, and never answers these: each probe is short.
const PROBE_MS = 25
export const TURN_MS = 180_000
// The kernel counts CPU time in hundredths of a second.
const TICK_MS = 10
const JSON_BODY = { "content-type": "application/json" }
// Most events are skipped unread, so that reading the stream costs the servers' cores little.
const WANTED = /"type":"(?:message\.part\.delta|session\.idle)"/

const commands = {
  opencode: () => opencode("serve", "--hostname", "127.0.0.1", "--port", "0"),
  baton: (world) => [binary, "serve", "--port", "0", "--data-dir", world.data],
}

// Ends the servers of a benchmark that was itself ended.
const running = new Set()
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")))

export class Side {
  // The turn that each session waits for.
  #turns = new Map()

  // Starts a server in a new world, or again in a world that exists. `healthy` is the time to its first answer.
  static async start(kind, model, world) {
    const side = new Side()
    side.kind = kind
    side.world = world ?? (await createWorld(model))
    const [program, ...args] = commands[kind](side.world)
    const began = performance.now()
    side.child = spawn(program, args, {
      cwd: side.world.project,
      env: environment(side.world),
      stdio: ["ignore", "pipe", "pipe"],
    })
    side.exit = once(side.child, "exit")
    running.add(side.child)
    side.child.once("exit", () => running.delete(side.child))
    side.url = await within(START_MS, side.#line(), `${kind} to listen`)
    side.agent = new http.Agent({ keepAlive: true, maxSockets: 256 })
    await within(START_MS, side.#answers(), `${kind} to answer`)
    side.healthy = performance.now() - began
    return side
  }

  #line() {
    let output = ""
    return new Promise((resolve, reject) => {
      for (const stream of [this.child.stdout, this.child.stderr]) {
        stream.setEncoding("utf8").on("data", (text) => {
          if (output === undefined) return
          output += text
          const found = LISTENING.exec(output)
          if (!found) return
          output = undefined
          resolve(found[1])
        })
      }
      this.exit.then(([code]) => reject(new Error(`${this.kind} ended (${code}):\n${output}`)))
    })
  }

  async #answers() {
    for (;;) {
      const answer = await this.call("GET", "/global/health", undefined, PROBE_MS).catch(() => undefined)
      if (answer !== undefined) return
    }
  }

  // Calls a route that must succeed, and returns its answer.
  call(method, target, body, ms = TURN_MS) {
    return new Promise((resolve, reject) => {
      const text = body === undefined ? undefined : JSON.stringify(body)
      const headers = text === undefined ? {} : { ...JSON_BODY, "content-length": Buffer.byteLength(text) }
      const options = { method, headers, agent: this.agent, timeout: ms }
      const request = http.request(new URL(target, this.url), options, (response) => {
        let answer = ""
        response.setEncoding("utf8").on("data", (chunk) => (answer += chunk))
        response.on("error", reject).on("end", () => {
          if (response.statusCode >= 300) reject(new Error(`${target}: ${response.statusCode} ${answer}`))
          else resolve(answer ? JSON.parse(answer) : null)
        })
      })
      request.on("timeout", () => request.destroy(new Error(`${target}: no answer in ${ms} ms`)))
      request.on("error", reject).end(text)
    })
  }

  // A title keeps both servers from asking the model for one.
  async session() {
    return (await this.call("POST", "/session", { title: "Measured" })).id
  }

  // Sends a prompt to the world's model, or to that of `model`.
  prompt(session, text) {
    const { model } = this
    return this.call("POST", `/session/${session}/prompt_async`, { model, parts: [{ type: "text", text }] })
  }

  // Opens a stream of events; only the first one measures turns. Resolves when the server has sent something.
  async listen(isMeasuring = true) {
    const request = http.get(new URL("/event", this.url), { agent: false })
    const [response] = await once(request, "response")
    let rest = ""
    response.setEncoding("utf8").on("error", () => {})
    response.on("data", (text) => {
      if (!isMeasuring) return
      const frames = (rest + text).split("\n\n")
      rest = frames.pop()
      for (const frame of frames) if (WANTED.test(frame)) this.#note(frame)
    })
    await once(response, "data")
    return request
  }

  #note(frame) {
    const now = performance.now()
    const line = frame.split("\n").find((line) => line.startsWith("data:"))
    const { type, properties } = JSON.parse(line.slice("data:".length))
    const turn = this.#turns.get(properties.sessionID)
    if (!turn) return
    if (type === "message.part.delta") turn.first ??= now
    if (type === "session.idle") turn.end(now)
  }

  // Sends a prompt and waits for its idle. Returns the times of the prompt, the first delta and the idle.
  async turn(session, text) {
    const turn = { sent: performance.now() }
    const ended = new Promise((resolve) => (turn.end = resolve))
    this.#turns.set(session, turn)
    await this.prompt(session, text)
    turn.accepted = performance.now()
    turn.idle = await within(TURN_MS, ended, `the idle of ${this.kind}`)
    this.#turns.delete(session)
    return turn
  }

  // Resident memory in bytes.
  get memory() {
    const [, kilobytes] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${this.child.pid}/status`, "utf8"))
    return Number(kilobytes) * 1024
  }

  // CPU time in milliseconds, including that of child processes that have ended.
  get cpu() {
    const stat = readFileSync(`/proc/${this.child.pid}/stat`, "utf8")
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks) * TICK_MS, 0)
  }

  // Ends the server and keeps its world.
  async end() {
    this.agent.destroy()
    this.child.kill(this.kind === "baton" ? "SIGTERM" : "SIGKILL")
    await this.exit
  }

  async stop() {
    await this.end()
    await this.world.remove()
  }
}
