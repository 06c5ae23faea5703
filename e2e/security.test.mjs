// Access control of a server, seen from outside.

import assert from "node:assert/strict"
import { execFile } from "node:child_process"
import { after, before, describe, test } from "node:test"
import { promisify } from "node:util"
import { call } from "./support/http.mjs"
import { ask, clients, ok, refused, textOf } from "./support/sdk.mjs"
import { Baton, World } from "./support/server.mjs"
import { listen, record } from "./support/stream.mjs"

describe("a server without a password", () => {
  let baton
  before(async () => (baton = await Baton.start()))
  after(() => baton.stop())

  const sessions = async () => JSON.parse((await call(baton)).body).length

  test("it accepts only its own host names", async () => {
    for (const host of [`127.0.0.1:${baton.port}`, `localhost:${baton.port}`, "LOCALHOST"]) {
      assert.equal((await call(baton, { headers: { host } })).status, 200, host)
    }
    for (const host of ["evil.example", `127.0.0.1.evil.example:${baton.port}`, "localhost.evil.example"]) {
      for (const target of ["/session", "/event", "/global/health", "/doc", "/no/such/path"]) {
        const { status, body } = await call(baton, { target, headers: { host } })
        assert.equal(status, 403, `${host} ${target}`)
        JSON.parse(body)
      }
    }
  })

  test("pages of other origins may neither read nor write", async () => {
    const body = "{}"
    const json = { "content-type": "application/json" }
    const before = await sessions()
    for (const origin of ["https://evil.example", "http://localhost.evil.example", "null", "file://"]) {
      for (const target of ["/session", "/event", "/config/providers"]) {
        const { status, headers } = await call(baton, { target, headers: { origin } })
        assert.equal(status, 403, `${origin} ${target}`)
        assert.equal(headers["access-control-allow-origin"], undefined)
      }
      assert.equal((await call(baton, { method: "POST", headers: { ...json, origin }, body })).status, 403, origin)
      const asking = { origin, "access-control-request-method": "POST" }
      const preflight = await call(baton, { method: "OPTIONS", headers: asking })
      assert.equal(preflight.headers["access-control-allow-origin"], undefined, origin)
    }
    assert.equal(await sessions(), before, "nothing was created")
  })

  test("the server's own pages may, with their origin in the answer", async () => {
    const origin = new URL(baton.url).origin
    const { status, headers } = await call(baton, { headers: { origin, "sec-fetch-site": "same-origin" } })
    assert.equal(status, 200)
    assert.equal(headers["access-control-allow-origin"], origin, "never a wildcard")
    const asking = { origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type" }
    const preflight = await call(baton, { method: "OPTIONS", headers: asking })
    assert.equal(preflight.headers["access-control-allow-origin"], origin)
  })

  test("a body needs a JSON content type", async () => {
    const before = await sessions()
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]) {
      const headers = { "content-type": type }
      const { status, body } = await call(baton, { method: "POST", headers, body: '{"title":"x"}' })
      assert.equal(status, 415, type)
      assert.equal(typeof JSON.parse(body).name, "string")
    }
    assert.equal((await call(baton, { method: "POST", body: '{"title":"x"}' })).status, 415, "no type at all")
    assert.equal(await sessions(), before, "nothing was created")
  })

  test("another user of this machine is refused", async (t) => {
    if (process.getuid?.() !== 0) return t.skip("only root can become another user")
    const script = `fetch(${JSON.stringify(new URL("/session", baton.url))}).then((it) => console.log(it.status))`
    const nobody = { uid: 65534, gid: 65534, cwd: "/" }
    const { stdout } = await promisify(execFile)(process.execPath, ["--eval", script], nobody)
    assert.equal(stdout.trim(), "401")
  })
})

test("--cors allows pages of a development server, and of no other port", async () => {
  const origin = "http://localhost:5173"
  const baton = await Baton.start({ args: ["--cors", origin] })
  const { status, headers } = await call(baton, { headers: { origin, "sec-fetch-site": "same-site" } })
  assert.equal(status, 200)
  assert.equal(headers["access-control-allow-origin"], origin)
  assert.equal((await call(baton, { headers: { origin: "http://localhost:5174" } })).status, 403)
  assert.equal((await call(baton, { headers: { "sec-fetch-site": "same-site" } })).status, 403, "an image has no origin")
  await baton.stop()
})

describe("a server with a password", () => {
  const basic = (user, password) => `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`

  for (const variable of ["OPENCODE_SERVER_PASSWORD", "BATON_PASSWORD"]) {
    describe(variable, () => {
      let baton
      before(async () => (baton = await Baton.start({ env: { [variable]: "sesame, open" } })))
      after(() => baton.stop())

      test("calls without it are refused", async () => {
        for (const target of ["/session", "/event", "/config", "/no/such/path"]) {
          const { status, headers } = await call(baton, { target })
          assert.equal(status, 401, target)
          assert.match(headers["www-authenticate"], /^Basic realm=/)
        }
        for (const authorization of [
          basic("opencode", "wrong"),
          basic("opencode", ""),
          basic("somebody", "sesame, open"),
          "Bearer sesame, open",
          "Basic ???",
        ]) {
          assert.equal((await call(baton, { headers: { authorization } })).status, 401, authorization)
        }
      })

      test("without it, a monitor learns that the server is up and nothing else", async () => {
        const { status, body } = await call(baton, { target: "/global/health" })
        assert.equal(status, 200)
        assert.deepEqual(JSON.parse(body), { healthy: true })
        const authorization = basic("opencode", "wrong")
        assert.equal((await call(baton, { target: "/global/health", headers: { authorization } })).status, 401)
      })

      test("calls with it are accepted, by header or by query", async () => {
        const authorization = basic("opencode", "sesame, open")
        assert.equal((await call(baton, { headers: { authorization } })).status, 200)
        const token = encodeURIComponent(authorization.slice("Basic ".length))
        assert.equal((await call(baton, { target: `/session?auth_token=${token}` })).status, 200)
        const strange = { authorization, host: "evil.example" }
        assert.equal((await call(baton, { headers: strange })).status, 403, "a password does not replace the host check")
      })

      for (const [name, connect] of clients) {
        test(`${name} is accepted with an Authorization header, for calls and for events`, async () => {
          const headers = { Authorization: basic("opencode", "sesame, open") }
          const sdk = connect(baton, { headers })
          const events = await record(sdk.subscribe)
          const { id } = await ok(sdk.create())
          assert.equal(textOf(await ok(sdk.prompt(id, ask("simple")))), "Hello from the demo model. All is well.")
          await events.tape.idle(id)
          await events.close()
          await refused(connect(baton).list(), 401)
        })
      }
    })
  }

  test("the user name can be chosen too", async () => {
    const env = { OPENCODE_SERVER_PASSWORD: "sesame", OPENCODE_SERVER_USERNAME: "ali" }
    const baton = await Baton.start({ env })
    const status = async (user) => (await call(baton, { headers: { authorization: basic(user, "sesame") } })).status
    assert.deepEqual([await status("ali"), await status("opencode")], [200, 401])
    await baton.stop()
  })
})

test("a server that other machines can reach does not start without a password", async () => {
  const world = await World.create()
  const { code, stdout, stderr } = await world.run(["serve", "--hostname", "0.0.0.0", "--port", "0"])
  assert.notEqual(code, 0)
  assert.doesNotMatch(stdout, /listening/)
  assert.match(stderr, /password/)
  await world.remove()
})

test("keys of providers are never shown", async () => {
  const secret = "sk-ant-not-for-anybody"
  const provider = { anthropic: { options: { apiKey: secret } } }
  const env = { ANTHROPIC_API_KEY: secret, OPENCODE_CONFIG_CONTENT: JSON.stringify({ provider }) }
  const baton = await Baton.start({ env })
  for (const target of ["/config", "/config/providers", "/provider", "/global/config", "/path", "/agent"]) {
    const { body } = await call(baton, { target })
    assert.ok(!body.includes(secret), target)
  }
  await baton.stop()
})

test("two servers do not share a database", async () => {
  const baton = await Baton.start()
  const { code, stdout, stderr } = await baton.world.run(["serve", "--port", "0", "--data-dir", baton.world.data])
  assert.notEqual(code, 0)
  assert.doesNotMatch(stdout, /listening/)
  assert.match(stderr, /another|already|in use/i)
  const { tape, close } = await listen(baton)
  assert.equal(tape.events[0].type, "server.connected", "the first is not disturbed")
  await close()
  await baton.stop()
})
