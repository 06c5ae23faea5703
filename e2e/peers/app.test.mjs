// The calls of OpenCode's web app, in its order, from the first page to the last worktree. Every call must succeed, with an
// answer that fits OpenCode's own document.

import assert from "node:assert/strict"
import { existsSync } from "node:fs"
import { after, before, describe, test } from "node:test"
import { open } from "../support/socket.mjs"
import { listen } from "../support/stream.mjs"
import { MAIN, Model } from "./support/model.mjs"
import { OpenCode, startBaton } from "./support/peers.mjs"
import { misfit } from "./support/schema.mjs"

describe("the web app", () => {
  let model, real, baton, document, events
  before(async () => {
    model = await Model.start()
    ;[real, baton] = await Promise.all([OpenCode.start(model), startBaton(model)])
    document = await (await real.fetch("/doc")).json()
  })
  after(async () => {
    await events?.close()
    await Promise.all([real?.stop(), baton?.stop()])
    await model?.stop()
  })

  // A call as the app makes it: with the directory in the query if it reads, else in a header.
  async function call(method, path, { directory, query = {}, body, headers = {}, ...names } = {}) {
    const isRead = method === "GET"
    const target = path.replaceAll(/\{([^}]*)\}/g, (_, name) => encodeURIComponent(names[name]))
    const where = directory && isRead ? { directory } : {}
    const all = { "content-type": "application/json", ...headers }
    if (directory && !isRead) all["x-opencode-directory"] = encodeURIComponent(directory)
    const init = { method, headers: all, body: body && JSON.stringify(body) }
    const response = await baton.fetch(`${target}?${new URLSearchParams({ ...query, ...where })}`, init)
    const text = await response.text()
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
    const described = document.paths[path]?.[method.toLowerCase()]?.responses[response.status]
    assert.ok(described, `${method} ${path}: OpenCode never answers ${response.status}`)
    if (response.status === 204) return undefined
    const answer = JSON.parse(text)
    const why = misfit(document, described.content["application/json"].schema, answer)
    assert.equal(why, undefined, `${method} ${path}`)
    return answer
  }
  const get = (path, options) => call("GET", path, options)
  const post = (path, options) => call("POST", path, options)
  const all = (paths, options) => Promise.all(paths.map((path) => get(path, options)))
  const happens = (type, fits, what) =>
    events.tape.until(({ directory, payload }) => payload.type === type && fits(payload.properties, directory), what)

  test("it identifies the server and reads its lists", async () => {
    assert.equal((await get("/global/health")).healthy, true)
    events = await listen(baton, { target: "/global/event" })
    await all(["/path", "/global/config", "/project", "/provider", "/provider/auth"])
  })

  test("it opens a project", async () => {
    const here = { directory: baton.directory }
    const project = await get("/project/current", here)
    assert.equal(project.worktree, baton.directory)
    const asked = ["/provider", "/agent", "/config", "/path", "/command", "/session/status", "/mcp", "/lsp", "/vcs"]
    const [{ connected }, agents] = await all(asked, here)
    assert.ok(connected.includes("scripted"))
    assert.ok(agents.some(({ name }) => name === "build"))
    await all(["/permission", "/question", "/experimental/resource", "/formatter", "/api/reference"], here)
    const body = { name: "A name", icon: { color: "blue" } }
    const named = await call("PATCH", "/project/{projectID}", { ...here, projectID: project.id, body })
    assert.equal(named.name, "A name")
    await happens("project.updated", ({ id }) => id === project.id, "the project's new name")
  })

  test("it lists sessions, creates one, opens it and gets an answer", async () => {
    const here = { directory: baton.directory }
    assert.deepEqual(await get("/session", { ...here, query: { roots: true, limit: 55 } }), [])
    const { id: sessionID } = await post("/session", here)
    const at = { ...here, sessionID }
    const open = async () => {
      await get("/session/{sessionID}", at)
      await get("/session/{sessionID}/todo", at)
      await get("/session/{sessionID}/diff", at)
      return get("/session/{sessionID}/message", { ...at, query: { limit: 80 } })
    }
    assert.deepEqual(await open(), [])
    const parts = [{ type: "text", text: "please [read]" }]
    const prompt = { agent: "build", model: { providerID: "scripted", modelID: MAIN }, parts }
    await post("/session/{sessionID}/prompt_async", { ...at, body: prompt })
    await happens("session.idle", (it) => it.sessionID === sessionID, "the end of the turn")
    const messages = await open()
    assert.match(JSON.stringify(messages.at(-1).parts), /It says something to read\./)
    const messageID = messages[0].info.id
    await get("/session/{sessionID}/message/{messageID}", { ...at, messageID })
    await get("/session/{sessionID}/diff", { ...at, query: { messageID } })

    await post("/session/{sessionID}/shell", { ...at, body: { agent: "build", command: "echo one" } })
    await post("/session/{sessionID}/command", { ...at, body: { command: "greet", arguments: "Ada" } })
    await post("/session/{sessionID}/revert", { ...at, body: { messageID } })
    await post("/session/{sessionID}/unrevert", at)
    await post("/session/{sessionID}/summarize", { ...at, body: { providerID: "scripted", modelID: MAIN } })
    await post("/session/{sessionID}/abort", at)
    const fork = await post("/session/{sessionID}/fork", { ...at, body: { messageID: messages.at(-1).info.id } })
    await call("PATCH", "/session/{sessionID}", { ...here, sessionID: fork.id, body: { title: "A fork of mine" } })

    const found = await get("/experimental/session", { query: { roots: true, search: "fork of", limit: 10 } })
    assert.deepEqual(found.map(({ id, project }) => [id, project.name]), [[fork.id, "A name"]])
    await call("PATCH", "/session/{sessionID}", { ...here, sessionID: fork.id, body: { time: { archived: 1 } } })
    assert.deepEqual(await get("/experimental/session", { query: { search: "fork of" } }), [])
    await call("DELETE", "/session/{sessionID}", { ...here, sessionID: fork.id })
    assert.equal((await get("/session", { ...here, query: { roots: true, limit: 55 } })).length, 1)
  })

  test("it shows files and their changes", async () => {
    const here = { directory: baton.directory }
    const names = (await get("/file", { ...here, query: { path: "" } })).map(({ name }) => name)
    assert.ok(names.includes("README.md"), String(names))
    const file = await get("/file/content", { ...here, query: { path: "README.md" } })
    assert.match(file.content, /\S/)
    assert.deepEqual(await get("/find/file", { ...here, query: { query: "readme" } }), ["README.md"])
    await get("/find", { ...here, query: { pattern: "Something" } })
    await get("/vcs/status", here)
    await get("/vcs/diff", { ...here, query: { mode: "git" } })
  })

  test("it opens a terminal and types", async () => {
    const here = { directory: baton.directory }
    await get("/pty/shells", here)
    const { id: ptyID } = await post("/pty", { ...here, body: { command: "/bin/cat", title: "Terminal 1" } })
    const at = { ...here, ptyID }
    await call("PUT", "/pty/{ptyID}", { ...at, body: { size: { rows: 40, cols: 100 } } })
    assert.equal((await get("/pty", here)).length, 1)
    const { ticket } = await post("/pty/{ptyID}/connect-token", { ...at, headers: { "x-opencode-ticket": "1" } })
    const query = new URLSearchParams({ directory: baton.directory, cursor: "0", ticket })
    const { status, socket } = await open(baton, `/pty/${ptyID}/connect?${query}`, { origin: new URL(baton.url).origin })
    assert.equal(status, 101)
    socket.send("typed\n")
    await socket.until(({ text }) => text === "typed\r\ntyped\r\n", "what was typed")
    await call("DELETE", "/pty/{ptyID}", at)
    await socket.until(({ frames }) => frames.some(({ gone }) => gone), "the end of the connection")
    await happens("pty.deleted", ({ id }) => id === ptyID, "the end of the terminal")
  })

  test("it works in a new worktree", async () => {
    const here = { directory: baton.directory }
    const made = await post("/experimental/worktree", { ...here, body: { name: "side work" } })
    await happens("worktree.ready", (_, directory) => directory === made.directory, "the worktree")
    assert.deepEqual(await get("/experimental/worktree", here), [made.directory])
    const there = { directory: made.directory }
    const project = await get("/project/current", there)
    assert.deepEqual([project.worktree, project.sandboxes], [baton.directory, [made.directory]])
    assert.equal((await get("/vcs", there)).branch, made.branch)
    const { id: sessionID } = await post("/session", there)
    const body = { parts: [{ type: "text", text: "please [write]" }] }
    await post("/session/{sessionID}/prompt_async", { ...there, sessionID, body })
    await happens("session.idle", (it) => it.sessionID === sessionID, "the end of the turn")
    assert.equal(existsSync(`${made.directory}/notes.txt`), true)
    assert.equal(existsSync(`${baton.directory}/notes.txt`), false)
    await post("/experimental/worktree/reset", { ...here, body: { directory: made.directory } })
    assert.equal(existsSync(`${made.directory}/notes.txt`), false)
    await call("DELETE", "/experimental/worktree", { ...here, body: { directory: made.directory } })
    assert.equal(existsSync(made.directory), false)
  })

  test("it changes settings and stores a key", async () => {
    const here = { directory: baton.directory }
    await call("PATCH", "/global/config", { body: { username: "ada" } })
    assert.equal((await get("/global/config")).username, "ada")
    await call("PUT", "/auth/{providerID}", { providerID: "openai", body: { type: "api", key: "not-a-key" } })
    await post("/instance/dispose", here)
    await call("DELETE", "/auth/{providerID}", { providerID: "openai" })
    await post("/global/dispose")
  })
})
