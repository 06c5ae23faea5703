// Calls that clients make before they can show anything, and answers to invalid calls.

import assert from "node:assert/strict"
import { execFile } from "node:child_process"
import { mkdir, mkdtemp, realpath } from "node:fs/promises"
import http from "node:http"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { promisify } from "node:util"
import { ask, clients, ok, v2 } from "./support/sdk.mjs"
import { Baton } from "./support/server.mjs"
import { record } from "./support/stream.mjs"

let baton
before(async () => (baton = await Baton.start()))
after(() => baton.stop())

for (const [name, connect] of clients) {
  describe(`facts with ${name}`, () => {
    let sdk
    before(() => (sdk = connect(baton)))

    test("config is an object", async () => {
      const config = await ok(sdk.config())
      assert.equal(typeof config, "object")
      assert.ok(!Array.isArray(config))
    })

    test("config.providers names providers, their models and a default", async () => {
      const { providers, default: defaults } = await ok(sdk.configProviders())
      const demo = providers.find((provider) => provider.id === "demo")
      isProvider(demo)
      assert.deepEqual(Object.keys(demo.models), ["baton"], "scripted models are used by name")
      isModel(demo.models.baton)
      assert.deepEqual([demo.models.baton.id, demo.models.baton.providerID], ["baton", "demo"])
      assert.equal(defaults.demo, "baton", "a new user's first prompt has a model to answer it")
    })

    test("provider.list marks connected providers", async () => {
      const { all, default: defaults, connected } = await ok(sdk.providers())
      isProvider(all.find((provider) => provider.id === "demo"))
      assert.equal(typeof defaults, "object")
      assert.ok(connected.includes("demo"))
    })

    test("app.agents lists agents with their mode and rules", async () => {
      const agents = await ok(sdk.agents())
      assert.deepEqual(
        ["build", "plan", "general"].map((wanted) => agents.find((agent) => agent.name === wanted)?.mode),
        ["primary", "primary", "subagent"],
      )
      for (const agent of agents) {
        assert.ok(["primary", "subagent", "all"].includes(agent.mode))
        assert.equal(typeof agent.options, "object")
        for (const rule of agent.permission) {
          assert.equal(typeof rule.permission, "string")
          assert.equal(typeof rule.pattern, "string")
          assert.ok(["allow", "deny", "ask"].includes(rule.action))
        }
      }
    })

    test("path.get returns the directories", async () => {
      const places = await ok(sdk.path())
      assert.equal(places.directory, baton.directory)
      for (const place of ["state", "config", "worktree", "directory"]) assert.ok(path.isAbsolute(places[place]), place)
    })

    test("project.current is among project.list", async () => {
      const { id } = await ok(sdk.create())
      const project = await ok(sdk.project())
      assert.equal(typeof project.id, "string")
      assert.ok(path.isAbsolute(project.worktree))
      assert.equal(typeof project.time.created, "number")
      assert.equal((await ok(sdk.get(id))).projectID, project.id)
      const projects = await ok(sdk.projects())
      assert.ok(projects.some((it) => it.id === project.id))
    })

    test("global events carry their directory", async () => {
      const controller = new AbortController()
      const { stream } = await sdk.globalEvents({ signal: controller.signal, sseMaxRetryAttempts: 1 })
      const first = await stream.next()
      assert.equal(first.value.payload.type, "server.connected")
      const { id } = await ok(sdk.create())
      for await (const { directory, payload } of stream) {
        if (payload.type !== "session.created") continue
        assert.equal(payload.properties.info.id, id)
        assert.equal(directory, baton.directory)
        break
      }
      controller.abort()
    })

    test("a client sees only events and sessions of its directory", async () => {
      const elsewhere = await realpath(await mkdtemp(path.join(baton.world.root, "els ewhere ü-")))
      const away = connect({ url: baton.url, directory: elsewhere }, { directory: elsewhere })
      const [hereEvents, awayEvents] = [await record(sdk.subscribe), await record(away.subscribe)]
      const session = await ok(away.create({ title: "away" }))
      assert.equal(session.directory, elsewhere)
      assert.equal((await ok(away.path())).directory, elsewhere)
      assert.deepEqual(
        (await ok(away.list())).map(({ id }) => id),
        [session.id],
      )
      await ok(sdk.prompt(session.id, ask("simple")))
      await awayEvents.tape.idle(session.id)
      const { id } = await ok(sdk.create())
      await hereEvents.tape.type("session.created", id)
      assert.deepEqual(hereEvents.tape.of(session.id), [], "the stream of one directory has no events of another")
      assert.deepEqual(awayEvents.tape.of(id), [])
      await Promise.all([hereEvents.close(), awayEvents.close()])
    })
  })
}

function isProvider(provider) {
  assert.equal(typeof provider.name, "string")
  assert.ok(["env", "config", "custom", "api"].includes(provider.source), provider.source)
  assert.ok(Array.isArray(provider.env))
  assert.equal(typeof provider.options, "object")
  assert.ok(!provider.key, "no key is shown")
  Object.values(provider.models).forEach(isModel)
}

function isModel(model) {
  for (const field of ["id", "providerID", "name", "release_date"]) assert.equal(typeof model[field], "string", field)
  for (const field of ["id", "url", "npm"]) assert.equal(typeof model.api[field], "string", field)
  for (const field of ["temperature", "reasoning", "attachment", "toolcall"]) {
    assert.equal(typeof model.capabilities[field], "boolean", field)
  }
  for (const side of ["input", "output"]) {
    for (const medium of ["text", "audio", "image", "video", "pdf"]) {
      assert.equal(typeof model.capabilities[side][medium], "boolean", `${side}.${medium}`)
    }
  }
  for (const price of [model.cost.input, model.cost.output, model.cost.cache.read, model.cost.cache.write]) {
    assert.equal(typeof price, "number")
  }
  assert.equal(typeof model.limit.context, "number")
  assert.equal(typeof model.limit.output, "number")
  assert.ok(["alpha", "beta", "deprecated", "active"].includes(model.status), model.status)
  assert.equal(typeof model.options, "object")
  assert.equal(typeof model.headers, "object")
}

describe("calls that only v2 makes", () => {
  test("health returns its state and a version", async () => {
    const health = await ok(v2(baton).client.global.health())
    assert.equal(health.healthy, true)
    assert.match(health.version, /^\d+\.\d+\.\d+/)
  })

  test("a repository is a separate project", async () => {
    const repository = path.join(baton.world.root, "repository")
    await mkdir(path.join(repository, "deep"), { recursive: true })
    const git = (...args) => promisify(execFile)("git", args, { cwd: repository, env: baton.world.env() })
    await git("init", "--quiet")
    const who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    await git(...who, "commit", "--quiet", "--allow-empty", "--message", "begin")
    const sdk = v2({ url: baton.url, directory: path.join(repository, "deep") })
    const project = await ok(sdk.project())
    assert.equal(project.worktree, repository)
    assert.equal(project.vcs, "git")
    assert.notEqual(project.id, "global")
    const session = await ok(sdk.create())
    assert.equal(session.projectID, project.id)
    assert.equal(session.path, "deep")
  })
})

describe("invalid calls", () => {
  const json = { "content-type": "application/json" }

  test("unknown paths are answered with JSON, not with a page", async () => {
    for (const [method, target] of [
      ["GET", "/no/such/path"],
      ["POST", "/session/ses_x/no_such_verb"],
      ["GET", "/api/no/such"],
      ["DELETE", "/"],
    ]) {
      const response = await baton.fetch(target, { method })
      assert.ok([404, 405].includes(response.status), `${method} ${target}: ${response.status}`)
      assert.match(response.headers.get("content-type"), /^application\/json/)
      assert.equal(typeof (await response.json()), "object")
    }
  })

  test("a wrong method is refused as such", async () => {
    const response = await baton.fetch("/session/status", { method: "PUT", headers: json, body: "{}" })
    assert.equal(response.status, 405)
    await response.json()
  })

  test("invalid bodies are refused with a reason", async () => {
    const { id } = await ok(v2(baton).create())
    for (const [body, message] of [
      ["{", /./],
      ["[]", /./],
      ['"text"', /./],
      ["null", /./],
      ['{"parts":[{"type":"text","text":1}]}', /parts\[0\]/],
      ['{"parts":[],"delivery":"whenever"}', /delivery|whenever/],
      [Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), /./],
    ]) {
      const init = { method: "POST", headers: json, body }
      const response = await baton.fetch(`/session/${id}/message`, init)
      assert.equal(response.status, 400, String(body))
      const error = await response.json()
      assert.equal(error.name, "BadRequest")
      assert.match(error.data.message, message)
    }
  })

  test("a body that is far too large is refused", async () => {
    const { id } = await ok(v2(baton).create())
    const body = JSON.stringify({ parts: [{ type: "text", text: "x".repeat(40 * 1024 * 1024) }] })
    const { status, text } = await new Promise((resolve, reject) => {
      // A client with such a body should send `Expect` first. The server may refuse at once or read the body.
      const headers = { ...json, "content-length": Buffer.byteLength(body), expect: "100-continue" }
      const request = http.request(new URL(`/session/${id}/message`, baton.url), { method: "POST", headers })
      request.on("continue", () => request.end(body)).on("error", reject)
      request.on("response", async (response) => {
        resolve({ status: response.statusCode, text: Buffer.concat(await response.toArray()).toString() })
        request.destroy()
      })
      request.flushHeaders()
    })
    assert.equal(status, 413)
    assert.match(JSON.parse(text).data.message, /larger than \d+ bytes/)
  })

  test("ids and numbers in a path or query are validated", async () => {
    const { id } = await ok(v2(baton).create())
    for (const target of [
      "/session/not-an-id",
      `/session/${id}/message?limit=many`,
      `/session/${id}/message?limit=-1`,
      `/session/${id}/message?limit=2&before=nonsense`,
      `/session/${id}/message/not-an-id`,
      "/session?start=yesterday",
    ]) {
      const response = await baton.fetch(target)
      assert.equal(response.status, 400, target)
      assert.equal((await response.json()).name, "BadRequest", target)
    }
  })

  test("the document describes what is served", async () => {
    const response = await baton.fetch("/doc")
    assert.equal(response.status, 200)
    const document = await response.json()
    assert.match(document.openapi, /^3\.1/)
    for (const route of ["/session", "/session/{sessionID}/message", "/event", "/global/health"]) {
      assert.ok(document.paths[route], route)
    }
  })

  test("metrics are served", async () => {
    const response = await baton.fetch("/metrics")
    assert.equal(response.status, 200)
    assert.match(await response.text(), /^# TYPE baton_\w+ (gauge|counter|histogram)$/m)
  })
})
