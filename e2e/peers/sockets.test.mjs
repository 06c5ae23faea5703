// Terminals through WebSockets: the same commands on OpenCode's own server and on Baton return the same frames.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { open } from "../support/socket.mjs"
import { Model } from "./support/model.mjs"
import { OpenCode, startBaton } from "./support/peers.mjs"

// A letter of one byte, one of two, and one that is two units in UTF-16 and four bytes in UTF-8.
const WRITTEN = "hä😀\r\n"
const SCRIPT = String.raw`printf 'h\303\244\360\237\230\200\n'; exec cat`

describe("a terminal through a WebSocket", () => {
  let model, servers
  before(async () => {
    model = await Model.start()
    servers = await Promise.all([OpenCode.start(model), startBaton(model)])
  })
  after(async () => {
    await Promise.all((servers ?? []).map((server) => server.stop()))
    await model?.stop()
  })

  const json = async (server, method, target, body, headers = {}) => {
    const init = { method, headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) }
    const response = await server.fetch(target, init)
    assert.ok(response.ok, `${method} ${target}: ${response.status} ${await response.clone().text()}`)
    return response.json()
  }

  const connect = async (server, id, query = "") => {
    const { status, socket } = await open(server, `/pty/${id}/connect?${query}`)
    assert.equal(status, 101)
    return socket
  }

  // A terminal whose program has written its output and waits.
  const begin = async (server) => {
    const { id } = await json(server, "POST", "/pty", { command: "/bin/sh", args: ["-c", SCRIPT], title: "words" })
    const socket = await connect(server, id)
    await socket.until(({ text }) => text === WRITTEN, "the first words")
    socket.leave()
    return id
  }

  // The text before the control frame and the frame itself, which is the first of bytes.
  const past = async (socket) => {
    await socket.until(({ frames }) => frames.some(({ bytes }) => bytes), "the frame that ends the past")
    const at = socket.frames.findIndex(({ bytes }) => bytes)
    const text = socket.frames.slice(0, at).map((frame) => frame.text)
    return { text: text.join(""), control: socket.frames[at].bytes.toString("latin1") }
  }

  const onBoth = async (play) => {
    const [theirs, ours] = await Promise.all(servers.map(play))
    assert.deepEqual(ours, theirs, "Baton: +, OpenCode: -")
    return ours
  }

  test("the stored text comes first, then a frame with its length in UTF-16 units", async () => {
    const seen = await onBoth(async (server) => {
      const id = await begin(server)
      const found = {}
      for (const query of ["", "cursor=0", "cursor=1", "cursor=2", "cursor=4", "cursor=6", "cursor=-1", "cursor=1000"]) {
        const socket = await connect(server, id, query)
        found[query] = await past(socket)
        socket.leave()
      }
      return found
    })
    assert.deepEqual(seen["cursor=2"], { text: "😀\r\n", control: '\0{"cursor":6}' })
  })

  test("typed text is echoed, and the connection ends with the program", async () => {
    const seen = await onBoth(async (server) => {
      const id = await begin(server)
      const socket = await connect(server, id, "cursor=-1")
      await past(socket)
      socket.send("äbc\n")
      await socket.until(({ text }) => text === "äbc\r\näbc\r\n", "what was typed, and what the program made of it")
      const other = await connect(server, id, "cursor=6")
      const cursor = await past(other)
      other.leave()
      socket.send("\u0004")
      await socket.until(({ frames }) => frames.some(({ close }) => close), "the end of the connection")
      return { text: socket.text, cursor, close: socket.frames.find(({ close }) => close) }
    })
    assert.deepEqual(seen.close, { close: 1000 })
  })

  test("a ticket is valid once", async () => {
    await onBoth(async (server) => {
      const id = await begin(server)
      const { ticket } = await json(server, "POST", `/pty/${id}/connect-token`, {}, { "x-opencode-ticket": "1" })
      const query = `ticket=${encodeURIComponent(ticket)}`
      const first = await open(server, `/pty/${id}/connect?${query}`)
      first.socket?.leave()
      const second = await open(server, `/pty/${id}/connect?${query}`)
      second.socket?.leave()
      const bare = await server.fetch(`/pty/${id}/connect-token`, { method: "POST" })
      return { first: first.status, second: second.status, bare: bare.status }
    })
  })

  test("a shell reads the user's profile", () =>
    onBoth(async (server) => {
      const { command, args, status, cwd } = await json(server, "POST", "/pty", { command: "/bin/bash" })
      return { command, args, status, isHere: cwd === server.directory }
    }))

  test("a terminal that does not exist", () =>
    onBoth(async (server) => (await open(server, "/pty/pty_000000000001AAAAAAAAAAAAAA/connect")).status))
})
