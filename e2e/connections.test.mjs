// Many connections, few files, and clients with unusual HTTP.

import assert from "node:assert/strict"
import { spawn } from "node:child_process"
import { once } from "node:events"
import http from "node:http"
import net from "node:net"
import { after, before, describe, test } from "node:test"
import { call } from "./support/http.mjs"
import { Baton } from "./support/server.mjs"
import { within } from "./support/wait.mjs"

const GUARD_MS = 60_000
// A connection without a call is closed after 30 s, so a server that only waits for that does not answer in
// time.
const HELD_MS = 25_000
const NOBODY = 65534
const isRoot = process.getuid?.() === 0
const skip = isRoot ? false : "only root can become another user"

// Opens connections without sending anything; resolves when each is open or refused.
const FLOOD = `
  const net = require("node:net")
  const [port, count] = process.argv.slice(1).map(Number)
  const open = () => new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1", resolve)
    socket.on("error", resolve)
  })
  Promise.all(Array.from({ length: count }, open)).then(() => console.log("ready"))
  setInterval(() => {}, 1000)
`

// Runs a script of Node, as this user or as another, until `stop` is called.
async function run(script, args, uid) {
  const user = uid === undefined ? {} : { uid, gid: uid }
  const command = ["--eval", script, "--", ...args.map(String)]
  const child = spawn(process.execPath, command, { ...user, cwd: "/", stdio: ["ignore", "pipe", "inherit"] })
  const exit = once(child, "exit")
  let output = ""
  const ready = new Promise((resolve) => {
    child.stdout.setEncoding("utf8").on("data", (text) => {
      output += text
      if (output.endsWith("\n")) resolve(output.trim())
    })
  })
  const said = await within(GUARD_MS, ready, "the script to be ready")
  const stop = async () => {
    child.kill("SIGKILL")
    await exit
  }
  return { said, stop }
}

// Polls the server's health as its owner until the answer is 200.
async function health(baton) {
  const ask = async () => {
    for (;;) {
      const { status } = await call(baton, { target: "/global/health" }).catch(() => ({}))
      if (status === 200) return
    }
  }
  await within(HELD_MS, ask(), "the server to answer")
}

// The server's answer to these bytes until it closes the connection.
function raw(baton, bytes, { end = false } = {}) {
  const answer = new Promise((resolve, reject) => {
    const socket = net.connect({ port: baton.port, host: "127.0.0.1", allowHalfOpen: true })
    let text = ""
    socket.setEncoding("utf8").on("data", (more) => (text += more))
    socket.on("end", () => {
      socket.end()
      resolve(text)
    })
    socket.on("error", reject)
    if (end) socket.end(bytes)
    else socket.write(bytes)
  })
  return within(GUARD_MS, answer, "an answer and the end of the connection")
}

describe("a server with thousands of connections", () => {
  let baton
  before(async () => (baton = await Baton.start()))
  after(() => baton.stop())

  test("answers its user while another user opens 4,200", { skip }, async () => {
    const flood = await run(FLOOD, [baton.port, 4_200], NOBODY)
    await health(baton)
    await flood.stop()
  })

  test("answers its user while another program of the same user holds 4,300", async () => {
    const flood = await run(FLOOD, [baton.port, 4_300])
    await health(baton)
    await flood.stop()
  })
})

test("a server that may open 64 files refuses clients when it is full and still answers calls", async () => {
  const baton = await Baton.start({ files: 64 })
  const open = () =>
    new Promise((resolve, reject) => {
      const request = http.get(new URL("/event", baton.url), { agent: false }, (response) => {
        if (response.statusCode === 200) return resolve({ status: 200, response })
        let body = ""
        response.setEncoding("utf8").on("data", (text) => (body += text))
        response.on("end", () => resolve({ status: response.statusCode, body }))
      })
      request.on("error", reject)
    })
  const streams = []
  for (let count = 0; count < 60; count++) streams.push(await within(GUARD_MS, open(), "an answer"))
  const refused = streams.filter(({ status }) => status !== 200)
  assert.ok(refused.length > 0 && refused.length < 60, `${refused.length} were refused`)
  for (const { status, body } of refused) {
    assert.equal(status, 503)
    assert.match(JSON.parse(body).message, /event stream.*ulimit/)
  }
  for (const target of ["/global/health", "/session", "/config"]) {
    assert.equal((await call(baton, { target })).status, 200, target)
  }
  for (const { response } of streams) response?.destroy()
  await baton.stop()
})

describe("a client with unusual HTTP", () => {
  let baton
  before(async () => (baton = await Baton.start()))
  after(() => baton.stop())

  test("gets its answer after it has closed its sending side", async () => {
    const json = { "content-type": "application/json" }
    const { id } = JSON.parse((await call(baton, { method: "POST", headers: json, body: "{}" })).body)
    const body = JSON.stringify({ model: { providerID: "demo", modelID: "simple" }, parts: [{ type: "text", text: "hello" }] })
    const head = [
      `POST /session/${id}/message HTTP/1.1`,
      "host: localhost",
      "content-type: application/json",
      `content-length: ${body.length}`,
    ]
    const text = await raw(baton, `${head.join("\r\n")}\r\n\r\n${body}`, { end: true })
    assert.match(text, /^HTTP\/1\.1 200 .*All is well/s)
  })

  test("may send a head of 64 KiB and no more", async () => {
    const head = (size) => {
      const start = "GET /global/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-long: "
      return `${start}${"x".repeat(size - start.length - 4)}\r\n\r\n`
    }
    assert.match(await raw(baton, head(65_536)), /^HTTP\/1\.1 200 /)
    for (const size of [65_537, 70_000, 500_000]) assert.match(await raw(baton, head(size)), /^HTTP\/1\.1 431 /)
  })
})

test("another user who guesses passwords must wait, the owner need not", { skip }, async () => {
  const GUESS = `
    const [url] = process.argv.slice(1)
    const guess = async (password) => {
      const authorization = "Basic " + Buffer.from("opencode:" + password).toString("base64")
      const answer = await fetch(url, { headers: { authorization } })
      return [answer.status, answer.headers.get("retry-after")]
    }
    const run = async () => {
      const answers = []
      // On a slow machine the first waits may pass by themselves; the waits grow.
      while (answers.length < 30 && answers.at(-1)?.[0] !== 429) answers.push(await guess("wrong"))
      console.log(JSON.stringify(answers))
    }
    run()
  `
  const baton = await Baton.start({ env: { BATON_PASSWORD: "sesame" } })
  const { said, stop } = await run(GUESS, [new URL("/session", baton.url)], NOBODY)
  await stop()
  const answers = JSON.parse(said)
  const [status, wait] = answers.pop()
  assert.ok(status === 429 && wait > 0, said)
  assert.ok(answers.length >= 6 && answers.every(([status]) => status === 401), said)
  const authorization = `Basic ${Buffer.from("opencode:sesame").toString("base64")}`
  assert.equal((await call(baton, { headers: { authorization } })).status, 200)
  await baton.stop()
})
