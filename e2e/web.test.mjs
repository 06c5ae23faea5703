// The web page as a server delivers it, and its sign-in; without a browser.

import assert from "node:assert/strict"
import { mkdir, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { call } from "./support/http.mjs"
import { Baton } from "./support/server.mjs"

const PASSWORD = "sesame, open"
const json = { "content-type": "application/json" }

// The addresses of the files that the page loads, relative to it.
const files = (html) => [...html.matchAll(/(?:src|href)="\.\/(web\/assets\/[^"]+)"/g)].map(([, file]) => `/${file}`)

describe("the page", () => {
  let baton
  before(async () => (baton = await Baton.start()))
  after(() => baton.stop())

  test("it is delivered with its policy, unpacked or packed, and once", async () => {
    const plain = await call(baton, { target: "/" })
    assert.equal(plain.status, 200)
    assert.match(plain.headers["content-type"], /^text\/html/)
    assert.equal(plain.headers["cache-control"], "no-cache")
    const policy = plain.headers["content-security-policy"]
    for (const rule of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types baton"]) {
      assert.ok(policy.includes(rule), rule)
    }
    assert.doesNotMatch(policy, /unsafe/)
    for (const [name, value] of [
      ["x-frame-options", "DENY"],
      ["referrer-policy", "no-referrer"],
      ["cross-origin-opener-policy", "same-origin"],
      ["cross-origin-resource-policy", "same-origin"],
      ["x-content-type-options", "nosniff"],
    ]) {
      assert.equal(plain.headers[name], value)
    }
    const response = await baton.fetch("/", { headers: { "accept-encoding": "gzip" } })
    assert.equal(response.headers.get("content-encoding"), "gzip")
    assert.equal(await response.text(), plain.body)
    const etag = plain.headers.etag
    assert.match(etag, /^"[0-9a-f]{40}"$/)
    const known = await call(baton, { target: "/", headers: { "if-none-match": etag } })
    assert.deepEqual([known.status, known.body, known.headers.etag], [304, "", etag])
    const head = await call(baton, { method: "HEAD", target: "/" })
    assert.deepEqual([head.status, head.body, head.headers.etag], [200, "", etag])
  })

  test("its files have names that never change their content, and relative addresses", async () => {
    const { body } = await call(baton, { target: "/" })
    const found = files(body)
    assert.ok(found.length >= 2, "run the tests with a binary that contains the page")
    assert.doesNotMatch(body, /(?:src|href)="(?:\/|https?:)/)
    for (const target of found) {
      const { status, headers } = await call(baton, { target })
      assert.equal(status, 200, target)
      assert.equal(headers["cache-control"], "public, max-age=31536000, immutable")
      assert.equal(headers["x-content-type-options"], "nosniff")
    }
  })

  test("no other path leads to the page", async () => {
    for (const target of ["/index.html", "/web", "/web/assets/", "/web/assets/none.js", "/s/ses_1", "/web/assets/%2e%2e/x"]) {
      const { status, body } = await call(baton, { target })
      assert.equal(status, 404, target)
      assert.equal(typeof JSON.parse(body).name, "string", target)
    }
  })

  test("a link from another site opens it, and nothing else", async () => {
    const headers = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" }
    assert.equal((await call(baton, { target: "/", headers })).status, 200)
    assert.equal((await call(baton, { target: "/session", headers })).status, 403)
    assert.equal((await call(baton, { target: "/", headers: { host: "evil.example" } })).status, 403)
    const foreign = await call(baton, { target: "/", headers: { origin: "http://evil.example" } })
    assert.equal(foreign.headers["access-control-allow-origin"], undefined)
  })

  test("without a password there is no sign-in", async () => {
    const { body } = await call(baton, { target: "/web/me" })
    assert.deepEqual(JSON.parse(body), { required: false, signedIn: true })
  })

  test("the health route names the page, so that an open one notices a newer one", async () => {
    const { headers } = await call(baton, { target: "/global/health" })
    assert.match(headers["x-baton-page"], /^[0-9a-f]{12}$/)
  })
})

test("--no-web serves no page, and / names the server", async () => {
  const baton = await Baton.start({ args: ["--no-web"] })
  const { status, body } = await call(baton, { target: "/" })
  assert.equal(status, 200)
  assert.match(String(body), /^Baton \S+: an agent session server/)
  await baton.stop()
})

test("--web-dir serves a directory, and nothing outside of it", async (t) => {
  const baton = await Baton.start({ args: ["--web-dir", "../page"] })
  t.after(() => baton.stop())
  const folder = path.join(baton.world.root, "page")
  await mkdir(path.join(folder, "web/assets"), { recursive: true })
  await writeFile(path.join(folder, "index.html"), "<p>mine</p>")
  await writeFile(path.join(folder, "web/assets/a.js"), "1")
  const page = await call(baton, { target: "/" })
  assert.equal(page.body, "<p>mine</p>")
  assert.match(page.headers["content-security-policy"], /default-src 'none'/)
  const script = await call(baton, { target: "/web/assets/a.js" })
  assert.deepEqual([script.body, script.headers["cache-control"]], ["1", "no-cache"])
  const target = "/web/assets/..%2f..%2f..%2fproject%2fREADME.md"
  assert.equal((await call(baton, { target })).status, 404)
})

describe("a server with a password", () => {
  let baton
  before(async () => (baton = await Baton.start({ env: { BATON_PASSWORD: PASSWORD } })))
  after(() => baton.stop())

  const login = (password, more = {}) =>
    call(baton, {
      method: "POST",
      target: "/web/login",
      headers: { ...json, ...more },
      body: JSON.stringify({ password, path: "/" }),
    })
  const cookieOf = (answer) => answer.headers["set-cookie"]?.[0].split(";")[0]

  test("the page and its files need none, and every other route does", async () => {
    const { status, body } = await call(baton, { target: "/" })
    assert.equal(status, 200)
    for (const target of files(body)) assert.equal((await call(baton, { target })).status, 200, target)
    for (const target of ["/session", "/web/session", "/global/event", "/web"]) {
      assert.equal((await call(baton, { target })).status, 401, target)
    }
    assert.equal((await call(baton, { method: "POST", target: "/" })).status, 401)
  })

  test("the calls of a page get no challenge, so that the browser shows no dialog of its own", async () => {
    const challenge = async (mode) => {
      const headers = mode ? { "sec-fetch-mode": mode, "sec-fetch-site": "same-origin" } : {}
      return (await call(baton, { headers })).headers["www-authenticate"]
    }
    assert.equal(await challenge("cors"), undefined)
    assert.match(await challenge("navigate"), /^Basic/)
    assert.match(await challenge(), /^Basic/)
  })

  test("a browser signs in once, stays signed in over a restart, and signs out", async () => {
    assert.deepEqual(JSON.parse((await call(baton, { target: "/web/me" })).body), { required: true, signedIn: false })
    assert.equal((await login("wrong")).status, 401)
    const answer = await login(PASSWORD, { "user-agent": "Test browser" })
    assert.equal(answer.status, 200)
    const [header] = answer.headers["set-cookie"]
    assert.match(header, /^baton_session=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=2592000$/)
    const cookie = cookieOf(answer)
    assert.equal((await call(baton, { headers: { cookie } })).status, 200)
    await baton.shutdown()
    await baton.begin()
    assert.equal((await call(baton, { headers: { cookie } })).status, 200, "after a restart")
    const me = await call(baton, { target: "/web/me", headers: { cookie } })
    assert.deepEqual(JSON.parse(me.body), { required: true, signedIn: true })
    assert.equal(cookieOf(me), cookie, "its time is extended")
    const list = JSON.parse((await call(baton, { target: "/web/session", headers: { cookie } })).body)
    assert.deepEqual(list.map(({ agent }) => agent), ["Test browser"])
    const out = await call(baton, { method: "POST", target: "/web/logout", headers: { cookie } })
    assert.match(out.headers["set-cookie"][0], /^baton_session=; .*Max-Age=0/)
    assert.equal((await call(baton, { headers: { cookie } })).status, 401)
  })

  test("another browser can be signed out", async () => {
    const [one, two] = [cookieOf(await login(PASSWORD)), cookieOf(await login(PASSWORD))]
    const list = JSON.parse((await call(baton, { target: "/web/session", headers: { cookie: one } })).body)
    assert.equal(list.length, 2)
    const target = `/web/session/${list[0].id}`
    assert.equal((await call(baton, { method: "DELETE", target, headers: { cookie: one } })).status, 200)
    const states = await Promise.all([one, two].map((cookie) => call(baton, { headers: { cookie } })))
    assert.deepEqual(states.map(({ status }) => status).sort(), [200, 401])
  })

  test("a cookie does not help a page of another origin, and a guessed one does not help at all", async () => {
    const cookie = cookieOf(await login(PASSWORD))
    for (const headers of [
      { cookie, origin: "http://localhost:3000", "sec-fetch-site": "same-site" },
      { cookie, origin: "http://evil.example" },
      { cookie, "sec-fetch-site": "cross-site" },
      { cookie, host: "evil.example" },
    ]) {
      assert.equal((await call(baton, { headers })).status, 403, JSON.stringify(headers))
    }
    assert.equal((await call(baton, { headers: { cookie: "baton_session=guess" } })).status, 401)
    assert.equal((await login(PASSWORD, { origin: "http://evil.example" })).status, 403)
    assert.equal((await login(PASSWORD, { "content-type": "text/plain" })).status, 415)
  })
})
