// A WebSocket that records every frame, with any `Host` and `Origin`.

import { randomBytes } from "node:crypto"
import http from "node:http"
import { signal, within } from "./wait.mjs"

const GUARD_MS = 20_000
const [TEXT, BINARY, CLOSE, PING, PONG] = [1, 2, 8, 9, 10]

// Opens a WebSocket; resolves with `{ status }` if the server refuses it.
export function open(server, target, headers = {}) {
  const upgrade = {
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": randomBytes(16).toString("base64"),
    ...headers,
  }
  const opened = new Promise((resolve, reject) => {
    const request = http.request(new URL(target, server.url), { headers: upgrade, agent: false })
    request.on("upgrade", (_, socket, head) => resolve({ status: 101, socket: new Socket(socket, head) }))
    request.on("response", (response) => {
      response.resume()
      resolve({ status: response.statusCode })
    })
    request.on("error", reject)
    request.end()
  })
  return within(GUARD_MS, opened, `an answer to ${target}`)
}

export class Socket {
  // `{ text }`, `{ bytes }` or `{ close: code }`, in order of arrival.
  frames = []
  #socket
  #rest
  #more = signal()

  constructor(socket, head) {
    this.#socket = socket
    this.#rest = head
    socket.on("data", (bytes) => {
      this.#rest = Buffer.concat([this.#rest, bytes])
      this.#read()
    })
    socket.on("close", () => this.#keep({ gone: true }))
    socket.on("error", () => {})
    this.#read()
  }

  // The text of all frames so far.
  get text() {
    return this.frames.map(({ text }) => text ?? "").join("")
  }

  // Waits until the predicate holds.
  async until(predicate, what) {
    const wait = async () => {
      while (!predicate(this)) await this.#more.promise
    }
    await within(GUARD_MS, wait(), what, () => JSON.stringify(this.frames))
  }

  send(text) {
    this.#write(TEXT, Buffer.from(text))
  }

  // Closes the connection without a close frame.
  leave() {
    this.#socket.destroy()
  }

  #keep(frame) {
    this.frames.push(frame)
    const more = this.#more
    this.#more = signal()
    more.resolve()
  }

  #read() {
    for (let frame = parse(this.#rest); frame; frame = parse(this.#rest)) {
      this.#rest = frame.rest
      if (frame.kind === TEXT) this.#keep({ text: frame.data.toString("utf8") })
      if (frame.kind === BINARY) this.#keep({ bytes: frame.data })
      if (frame.kind === CLOSE) this.#keep({ close: frame.data.length ? frame.data.readUInt16BE(0) : undefined })
      if (frame.kind === PING) this.#write(PONG, frame.data)
    }
  }

  // Clients must mask their frames; a mask of zeros changes nothing.
  #write(kind, data) {
    const length = data.length < 126 ? [0x80 | data.length] : [0x80 | 126, data.length >> 8, data.length & 0xff]
    this.#socket.write(Buffer.concat([Buffer.from([0x80 | kind, ...length, 0, 0, 0, 0]), data]))
  }
}

// The first frame of some bytes, if it is complete. The server does not fragment messages, so neither does this parser.
function parse(bytes) {
  if (bytes.length < 2) return undefined
  const short = bytes[1] & 0x7f
  const head = 2 + ({ 126: 2, 127: 8 }[short] ?? 0)
  if (bytes.length < head) return undefined
  const length = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short
  if (bytes.length < head + length) return undefined
  return { kind: bytes[0] & 0x0f, data: bytes.subarray(head, head + length), rest: bytes.subarray(head + length) }
}
