// A proxy before the server that behaves like a bad network: it drops, delays, cuts, holds back and answers itself.

import http from "node:http"
import { once } from "node:events"

// A small generator with a seed (mulberry32), so that a failure can be repeated.
export function dice(seed) {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
  return { below: (limit) => Math.floor(next() * limit) }
}

export class Flaky {
  // With a prefix, the proxy passes on only calls below it, without the prefix.
  static async start(target, seed, { prefix = "" } = {}) {
    const flaky = new Flaky(target, seed, prefix)
    flaky.server.listen(0, "127.0.0.1")
    await once(flaky.server, "listening")
    flaky.url = `http://127.0.0.1:${flaky.server.address().port}`
    return flaky
  }

  constructor(target, seed, prefix) {
    this.target = new URL(target)
    this.prefix = prefix
    this.roll = dice(seed)
    // A calm proxy passes everything on.
    this.isWild = false
    // A proxy that is down drops every call.
    this.isDown = false
    // Changes the headers of a call.
    this.rewrite = (headers) => headers
    this.counts = { dropped: 0, cut: 0, split: 0, held: 0, refused: 0 }
    this.server = http.createServer((request, response) => this.#pass(request, response))
  }

  // Ends every open connection.
  cut() {
    this.server.closeAllConnections()
  }

  async close() {
    const closed = once(this.server, "close")
    this.server.close()
    this.server.closeAllConnections()
    await closed
  }

  #pass(request, response) {
    if (this.isDown) return request.socket.destroy()
    const chance = this.isWild ? this.roll.below(12) : 99
    if (chance === 0) {
      this.counts.dropped++
      return request.socket.destroy()
    }
    if (chance === 1) {
      this.counts.refused++
      return response.writeHead(502, { "content-type": "text/html" }).end("<h1>Bad gateway</h1>")
    }
    if (!request.url.startsWith(`${this.prefix}/`)) return response.writeHead(404).end()
    const { hostname, port } = this.target
    const path = request.url.slice(this.prefix.length)
    const options = { hostname, port, path, method: request.method, headers: this.rewrite({ ...request.headers }) }
    const call = http.request(options, (answer) => {
      response.writeHead(answer.statusCode, answer.headers)
      response.flushHeaders()
      void this.#forward(answer, response)
    })
    call.on("error", () => response.destroy())
    response.on("close", () => call.destroy())
    request.pipe(call)
  }

  async #forward(answer, response) {
    try {
      for await (const chunk of answer) {
        if (response.destroyed) return
        if (!this.isWild) {
          response.write(chunk)
          continue
        }
        // Anywhere: in the middle of a frame, a line or a character.
        const at = this.roll.below(chunk.length + 1)
        response.write(chunk.subarray(0, at))
        this.counts.split++
        const chance = this.roll.below(60)
        if (chance === 0) {
          this.counts.cut++
          return response.destroy()
        }
        if (chance === 1) {
          // A clean end, as of a proxy that is restarted.
          this.counts.cut++
          return response.end()
        }
        if (chance < 8) {
          this.counts.held++
          await new Promise((resolve) => setTimeout(resolve, this.roll.below(300)))
        }
        response.write(chunk.subarray(at))
      }
      response.end()
    } catch {
      response.destroy()
    }
  }
}
