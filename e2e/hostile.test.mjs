// A hostile page in a browser on the same machine: whatever it tries, the server's state does not change.

import assert from "node:assert/strict"
import { existsSync } from "node:fs"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { call } from "./support/http.mjs"
import { Baton } from "./support/server.mjs"
import { open } from "./support/socket.mjs"

const JSON_BODY = { "content-type": "application/json" }
const EVIL = "https://evil.example"

describe("a hostile page", () => {
  let baton, session, terminal, untouched
  before(async () => {
    baton = await Baton.start()
    session = await make("/session", {})
    terminal = await make("/pty", { command: "/bin/cat" })
    untouched = await state()
  })
  after(() => baton.stop())

  const make = async (target, body) => {
    const answer = await call(baton, { method: "POST", target, headers: JSON_BODY, body: JSON.stringify(body) })
    assert.equal(answer.status, 200, answer.body)
    return JSON.parse(answer.body)
  }
  const get = async (target) => JSON.parse((await call(baton, { target })).body)

  // Everything that the calls below could change.
  const state = async () => ({
    sessions: await get("/session"),
    messages: await get(`/session/${session.id}/message`),
    status: await get("/session/status"),
    terminals: await get("/pty"),
    config: await get("/config"),
    user: await get("/global/config"),
    servers: await get("/mcp"),
    files: existsSync(path.join(baton.directory, "made.txt")),
    repository: existsSync(path.join(baton.directory, ".git")),
  })

  // Calls with an effect, each harmless from an allowed client.
  const deeds = () => [
    ["POST", "/session", { title: "mine" }],
    ["POST", `/session/${session.id}/message`, { parts: [{ type: "text", text: "hello" }] }],
    ["POST", `/session/${session.id}/prompt_async`, { parts: [{ type: "text", text: "hello" }] }],
    ["POST", `/session/${session.id}/shell`, { agent: "build", command: "touch made.txt" }],
    ["POST", `/session/${session.id}/command`, { command: "init", arguments: "" }],
    ["PATCH", `/session/${session.id}`, { title: "mine" }],
    ["DELETE", `/session/${session.id}`],
    ["POST", `/api/session/${session.id}/prompt`, { prompt: { text: "hello" } }],
    ["PATCH", "/config", { username: "mallory" }],
    ["PATCH", "/global/config", { username: "mallory" }],
    ["PUT", "/auth/openai", { type: "api", key: "not-a-key" }],
    ["POST", "/mcp", { name: "mine", config: { type: "local", command: ["touch", "made.txt"] } }],
    ["POST", "/pty", { command: "touch", args: ["made.txt"] }],
    ["DELETE", `/pty/${terminal.id}`],
    ["POST", "/project/git/init", {}],
    ["POST", "/experimental/worktree", {}],
    ["POST", "/tui/append-prompt", { text: "hello" }],
    ["POST", "/instance/dispose", {}],
  ]

  const attempt = async (headers, expected) => {
    for (const [method, target, body] of deeds()) {
      const sent = JSON.stringify(body ?? {})
      const answer = await call(baton, { method, target, headers, body: sent })
      assert.equal(answer.status, expected, `${method} ${target}: ${answer.body}`)
      const error = JSON.parse(answer.body)
      assert.ok(error.name ?? error._tag, "a refusal that a client understands")
      assert.equal(answer.headers["access-control-allow-origin"], undefined)
    }
    assert.deepEqual(await state(), untouched, "nothing has changed")
  }

  test("another origin", () => attempt({ ...JSON_BODY, origin: EVIL }, 403))
  test("a sandboxed frame, whose origin is null", () => attempt({ ...JSON_BODY, origin: "null" }, 403))
  test("another port of a name that only looks like this machine", () =>
    attempt({ ...JSON_BODY, origin: `http://localhost.evil.example:${baton.port}` }, 403))

  test("another port of this machine", async () => {
    for (const host of ["localhost", "127.0.0.1", "[::1]"]) {
      await attempt({ ...JSON_BODY, origin: `http://${host}:5173`, "sec-fetch-site": "same-site" }, 403)
    }
  })

  test("images, scripts, links and forms, which browsers send without an origin", async () => {
    const reads = ["/mcp", "/command", "/experimental/resource", "/vcs/status", "/file/status", "/event", "/doc", "/global/health"]
    for (const site of ["cross-site", "same-site"]) {
      await attempt({ ...JSON_BODY, "sec-fetch-site": site, "sec-fetch-mode": "no-cors" }, 403)
      for (const target of reads) {
        for (const mode of ["no-cors", "navigate"]) {
          const headers = { "sec-fetch-site": site, "sec-fetch-mode": mode }
          const answer = await call(baton, { target, headers })
          assert.equal(answer.status, 403, `${site} ${mode} ${target}`)
          assert.match(JSON.parse(answer.body).message, /--cors/)
        }
      }
    }
    // The user typed the address, or this server's own page calls.
    for (const site of ["none", "same-origin"]) {
      const answer = await call(baton, { headers: { "sec-fetch-site": site } })
      assert.equal(answer.status, 200, site)
    }
  })

  test("a foreign name that resolves to this server", async () => {
    const host = `evil.example:${baton.port}`
    await attempt({ ...JSON_BODY, host }, 403)
    // To the browser this is the page's own origin.
    await attempt({ ...JSON_BODY, host, origin: `http://${host}` }, 403)
  })

  test("a foreign name that resolves to this server may not read either", async () => {
    for (const target of ["/session", "/config", "/event", "/global/event", "/api/event", "/file/content?path=README.md"]) {
      const answer = await call(baton, { target, headers: { host: `evil.example:${baton.port}` } })
      assert.equal(answer.status, 403, target)
    }
  })

  test("calls without a preflight: text and forms", async () => {
    for (const kind of ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded"]) {
      await attempt({ "content-type": kind, origin: EVIL }, 403)
    }
    // Even without an origin. Calls without a body do not check its type.
    for (const [method, target, body] of deeds().filter(([method, , body]) => method === "POST" && body)) {
      if (Object.keys(body).length === 0) continue
      const headers = { "content-type": "text/plain" }
      const answer = await call(baton, { method, target, headers, body: JSON.stringify(body) })
      assert.equal(answer.status, 415, `${target}: ${answer.body}`)
    }
    assert.deepEqual(await state(), untouched, "nothing has changed")
  })

  test("a WebSocket from another origin, or through another name", async () => {
    const target = `/pty/${terminal.id}/connect`
    const own = `http://127.0.0.1:${baton.port}`
    const host = `evil.example:${baton.port}`
    const foreign = [
      { origin: EVIL },
      { origin: "null" },
      { origin: "http://localhost:5173" },
      { "sec-fetch-site": "cross-site" },
      { origin: own, "sec-fetch-site": "same-site" },
      { host },
      { host, origin: `http://${host}` },
    ]
    for (const headers of foreign) {
      for (const address of [target, `/api${target}`]) {
        assert.equal((await open(baton, address, headers)).status, 403, JSON.stringify(headers))
      }
      const ticket = { method: "POST", target: `/pty/${terminal.id}/connect-token` }
      const asked = await call(baton, { ...ticket, headers: { ...headers, "x-opencode-ticket": "1" } })
      assert.equal(asked.status, 403, "it gets no ticket either")
      const stolen = JSON.parse((await call(baton, { ...ticket, headers: { "x-opencode-ticket": "1" } })).body)
      const refused = await open(baton, `${target}?ticket=${encodeURIComponent(stolen.ticket)}`, headers)
      assert.equal(refused.status, 403, "a stolen ticket does not help")
    }
    const { status, socket } = await open(baton, target, { origin: own })
    assert.equal(status, 101, "a page of this server may connect")
    socket.send("hello\n")
    await socket.until(({ text }) => text.includes("hello"), "what was typed")
    socket.leave()
  })
})
