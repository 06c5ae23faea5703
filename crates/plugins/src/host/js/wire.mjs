// JSON-RPC over two separate pipes, one message per line. A plugin's output cannot get into them: standard output is
// redirected to standard error, and programs do not write to descriptors 3 and 4 by accident.
import { createReadStream, writeSync } from "node:fs"
import { Socket } from "node:net"

const INPUT = 3
const OUTPUT = 4
/** Maximum length of a line. A longer message is an error of its sender. */
const MAX_LINE = 32 * 1024 * 1024
/** Error codes: the method threw, the method does not exist, or its result cannot be sent. */
const THROWN = -32000
const UNKNOWN = -32601
const UNSENDABLE = -32603

export class Wire {
  #next = 1
  #waiting = new Map()
  #methods
  #buffered = []

  /** @param methods the methods that the other side may call, by name */
  constructor(methods) {
    this.#methods = methods
  }

  /** Reads until the other side closes its pipe. */
  async listen() {
    const input = process.versions.bun ? createReadStream("", { fd: INPUT }) : new Socket({ fd: INPUT, readable: true, writable: false })
    for await (const chunk of input) this.#take(chunk)
  }

  /** Sends a notification. */
  notify(method, params) {
    this.#send({ jsonrpc: "2.0", method, params })
  }

  /** Sends a request and waits for its answer. */
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

/** Secrets that must not appear in errors; the oldest are dropped. */
const secrets = new Set()
const MAX_SECRETS = 200
/** Shorter texts are not keys, and hiding them would hide ordinary words. */
const SHORTEST_SECRET = 8

/** Hides these texts in errors from now on. */
export function hide(...texts) {
  for (const text of texts) {
    if (typeof text !== "string" || text.length < SHORTEST_SECRET) continue
    secrets.delete(text)
    secrets.add(text)
    if (secrets.size > MAX_SECRETS) secrets.delete(secrets.values().next().value)
  }
}

/** Hides the secrets of a login. */
export function hideLogin(login) {
  const { key, token, access, refresh, metadata } = login ?? {}
  hide(key, token, access, refresh, ...Object.values(metadata ?? {}))
}

/** The message of an error, shortened and without secrets. As in OpenCode, it does not name the error's type. */
export function describe(error) {
  let text = error instanceof Error ? error.message || error.name : String(error)
  for (const secret of secrets) text = text.replaceAll(secret, "[hidden]")
  return text.length > 1000 ? `${text.slice(0, 1000)}…` : text
}
