// The common part of the scripted models of all dialects: a server on loopback, a record of the calls, and answers that pause
// until the test releases them.

import { once } from "node:events"
import { createServer } from "node:http"
import { signal, within } from "../../support/wait.mjs"

const HELD_MS = 60_000

export class Scripted {
  // Answers that wait for the test to release them.
  #held = new Set()
  // Tests that wait for such an answer.
  #watchers = []
  // The bodies of all calls, for tests that check the requests to the model.
  calls = []

  static async start(...args) {
    const model = new this(...args)
    model.server = createServer((request, response) => {
      model.#hear(request, response).catch((error) => response.destroy(error))
    })
    model.server.listen(0, "127.0.0.1")
    await once(model.server, "listening")
    model.url = `http://127.0.0.1:${model.server.address().port}${this.base}`
    return model
  }

  // True if an answer pauses at a `hold`.
  get isHolding() {
    return this.#held.size > 0
  }

  // Resolves when an answer pauses at a `hold`.
  async holding() {
    if (!this.isHolding) await new Promise((resolve) => this.#watchers.push(resolve))
  }

  // Continues every answer that pauses at a `hold`.
  release() {
    for (const held of this.#held) held.resolve()
    this.#held.clear()
  }

  async stop() {
    this.release()
    this.server.closeAllConnections()
    this.server.close()
    await once(this.server, "close")
  }

  async #hear(request, response) {
    let text = ""
    for await (const chunk of request.setEncoding("utf8")) text += chunk
    await this.answer(request, text, response)
  }

  // Pauses until the test releases the answer, or the caller closes the connection.
  async hold(response) {
    const held = signal()
    this.#held.add(held)
    this.#watchers.splice(0).forEach((tell) => tell())
    response.on("close", () => (this.#held.delete(held), held.resolve()))
    await within(HELD_MS, held.promise, "the end of a hold")
  }
}

export function refuse(response, { status, message, headers }) {
  response.writeHead(status, { "content-type": "application/json", ...headers })
  response.end(JSON.stringify({ error: { message, type: "scripted" } }))
}
