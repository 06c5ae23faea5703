// JSON-RPC over two pipes of its own, one message per line. Whatever a plugin prints goes elsewhere: standard output is
// standard error by the time this runs, and the pipes have numbers that no program writes to by accident.
import { createReadStream, writeSync } from "node:fs"
import { Socket } from "node:net"

const INPUT = 3
const OUTPUT = 4
/** Longest line that is sent. Something longer is an error of whoever wanted to say it. */
const MAX_LINE = 32 * 1024 * 1024
/** The codes of errors: what was called threw, or it was not called, or what it left behind cannot be sent. */
const THROWN = -32000
const UNKNOWN = -32601
const UNSENDABLE = -32603

export class Wire {
  #next = 1
  #waiting = new Map()
  #methods
  #buffered = []

  /** @param methods what the other side may call, by name */
  constructor(methods) {
    this.#methods = methods
  }

  /** Reads until the other side hangs up. */
  async listen() {
    const input = globalThis.Bun ? createReadStream("", { fd: INPUT }) : new Socket({ fd: INPUT, readable: true, writable: false })
    for await (const chunk of input) this.#take(chunk)
  }

  /** Tells something and expects nothing. */
  notify(method, params) {
    this.#send({ jsonrpc: "2.0", method, params })
  }

  /** Asks something. */
  request(method, params) {
    const id = this.#next++
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#send({ jsonrpc: "2.0", id, method, params })
    })
  }

  #take(chunk) {
    let rest = chunk
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      this.#buffered.push(rest.subarray(0, end))
      const line = Buffer.concat(this.#buffered).toString("utf8")
      this.#buffered = []
      rest = rest.subarray(end + 1)
      if (line.trim()) this.#read(JSON.parse(line))
    }
    if (rest.length > 0) this.#buffered.push(rest)
  }

  #read(message) {
    if (message.method === undefined) return this.#settle(message)
    const method = this.#methods[message.method]
    if (message.id === undefined) return void method?.(message.params)
    this.#answer(message.id, method, message.params)
  }

  #settle({ id, result, error }) {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (error) waiting?.reject(new Error(error.message))
    else waiting?.resolve(result)
  }

  async #answer(id, method, params) {
    const fail = (code, error) => this.#send({ jsonrpc: "2.0", id, error: { code, message: describe(error) } })
    if (!method) return fail(UNKNOWN, new Error("there is no such method"))
    let result
    try {
      result = await method(params, id)
    } catch (error) {
      return fail(THROWN, error)
    }
    try {
      this.#send({ jsonrpc: "2.0", id, result: result ?? null })
    } catch (error) {
      fail(UNSENDABLE, error)
    }
  }

  #send(message) {
    const line = Buffer.from(JSON.stringify(message) + "\n")
    if (line.length > MAX_LINE) throw new Error(`a message of ${line.length} bytes is too long`)
    // The pipe blocks while it is full, and the other side never stops reading.
    for (let sent = 0; sent < line.length; ) sent += writeSync(OUTPUT, line, sent)
  }
}

/** Texts that let people in and are not told to anybody; the oldest are forgotten. */
const secrets = new Set()
const MAX_SECRETS = 200
/** Shorter texts are no keys, and would blot out ordinary words. */
const SHORTEST_SECRET = 8

/** Sees to it that none of these texts is told when something goes wrong. */
export function hide(...texts) {
  for (const text of texts) {
    if (typeof text !== "string" || text.length < SHORTEST_SECRET) continue
    secrets.delete(text)
    secrets.add(text)
    if (secrets.size > MAX_SECRETS) secrets.delete(secrets.values().next().value)
  }
}

/** The same for what lets somebody in. */
export function hideLogin(login) {
  const { key, token, access, refresh, metadata } = login ?? {}
  hide(key, token, access, refresh, ...Object.values(metadata ?? {}))
}

/** What went wrong, in at most a few lines: what was thrown says it, as in OpenCode without the kind of error it is. */
export function describe(error) {
  let text = error instanceof Error ? error.message || error.name : String(error)
  for (const secret of secrets) text = text.replaceAll(secret, "[hidden]")
  return text.length > 1000 ? `${text.slice(0, 1000)}…` : text
}
