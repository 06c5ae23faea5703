// Starts a fake chat service (`testkit/src/bin/platforms.rs`) and acts as its users.

import assert from "node:assert/strict"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { within } from "./wait.mjs"

// `cargo xtask e2e` sets the path of the program that it has built.
const binary = path.resolve(
  process.env.PLATFORMS_BIN ?? fileURLToPath(new URL("../../target/debug/platforms", import.meta.url)),
)

const START_MS = 10_000
const LOOK_MS = 60_000

export class Platform {
  static async start(name, options = {}) {
    assert.ok(existsSync(binary), `${binary} is missing: build it with \`cargo build -p testkit\``)
    // It exits when its input is closed.
    const child = spawn(binary, [name, JSON.stringify(options)], { stdio: ["pipe", "pipe", "inherit"] })
    child.stdout.setEncoding("utf8")
    const [line] = await within(START_MS, once(child.stdout, "data"), `the fake of ${name} to start`)
    return new Platform(child, JSON.parse(line))
  }

  constructor(child, { url, broken, breaker }) {
    this.child = child
    this.url = url
    // The same service behind a proxy that breaks connections, and the proxy's own address.
    this.broken = broken
    this.breaker = breaker
  }

  // Breaks the connections of the gateway that uses `broken`: reset, hang, badGateway or halfOpen.
  cut = (kind) => this.#break("POST", "cut", { kind })
  restore = () => this.#break("POST", "restore")
  // Resolves when a call whose first line contains these words was broken.
  cutCall = (words) => this.#break("GET", `broken?words=${encodeURIComponent(words)}`)

  async #break(method, path, body) {
    const headers = { "content-type": "application/json" }
    const answer = await fetch(new URL(path, this.breaker), { method, headers, body: body && JSON.stringify(body) })
    assert.equal(answer.status, 200, `${path}: ${await answer.text()}`)
  }

  async control(what, body = {}) {
    const headers = { "content-type": "application/json" }
    const target = new URL(`/control/${what}`, this.url)
    const answer = await fetch(target, { method: "POST", headers, body: JSON.stringify(body) })
    assert.equal(answer.status, 200, await answer.clone().text())
    return answer.json()
  }

  // Actions of a user.
  say = (said) => this.control("say", said)
  tap = (tap) => this.control("tap", tap)
  // Faults, and actions of the service itself.
  plan = (fault) => this.control("fault", fault)
  release = () => this.control("release")
  repeat = () => this.control("repeat")

  // The state of the service; with `after`, as soon as it is newer than that version.
  async state(after) {
    const target = after === undefined ? "/control/state" : `/control/state?after=${after}`
    return (await fetch(new URL(target, this.url))).json()
  }

  // The first result of `look` over the states of the service.
  async until(what, look) {
    let state
    const looking = async () => {
      for (;;) {
        state = await this.state(state?.version)
        const found = look(state)
        if (found) return found
      }
    }
    return within(LOOK_MS, looking(), what, () => JSON.stringify(state, null, 2))
  }

  async stop() {
    const exit = once(this.child, "exit")
    this.child.stdin.end()
    await exit
  }
}
