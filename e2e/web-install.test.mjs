// The installed page: manifest, service worker, notifications, and the page without a server.

import assert from "node:assert/strict"
import { mkdir, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"

// Longer than anything takes on a busy machine.
const PATIENCE_MS = 30_000

// Repeats a question whose answer takes time, which `waitForFunction` cannot, until the page gives one.
async function eventually(page, ask) {
  const end = Date.now() + PATIENCE_MS
  while (Date.now() < end) {
    const answer = await page.evaluate(ask)
    if (answer) return answer
  }
  throw new Error(`the page did not come to it: ${ask}`)
}

describe("the installed page", needsBrowser(), () => {
  let browser, baton
  before(async () => {
    browser = await launch()
    baton = await serve()
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  const controlled = (page) => page.waitForFunction(() => navigator.serviceWorker.controller !== null)
  const stored = (page) =>
    page.evaluate(async () => {
      const names = await caches.keys()
      const lists = await Promise.all(names.map(async (name) => (await caches.open(name)).keys()))
      return { names, urls: lists.flat().map(({ url }) => url) }
    })

  test("the manifest has icons, relative addresses, and makes the page installable", async () => {
    const { page, context, finish } = await open(browser, baton)
    await controlled(page)
    const link = page.locator('link[rel="manifest"]')
    assert.equal(await link.getAttribute("crossorigin"), "use-credentials")
    const target = await link.getAttribute("href")
    const response = await baton.fetch(target)
    assert.equal(response.headers.get("content-type"), "application/manifest+json")
    const manifest = await response.json()
    assert.equal(new URL(manifest.start_url, response.url).pathname, "/")
    for (const { src, sizes, type } of manifest.icons) {
      const icon = await baton.fetch(new URL(src, response.url).pathname)
      assert.equal(icon.headers.get("content-type"), type)
      const bytes = Buffer.from(await icon.arrayBuffer())
      assert.equal(`${bytes.readUInt32BE(16)}x${bytes.readUInt32BE(20)}`, sizes)
    }
    const devtools = await context.newCDPSession(page)
    const { errors } = await devtools.send("Page.getAppManifest")
    assert.deepEqual(errors, [])
    const { installabilityErrors } = await devtools.send("Page.getInstallabilityErrors")
    assert.deepEqual(installabilityErrors.filter(({ errorId }) => errorId !== "in-incognito"), [])
    await finish()
  })

  test("the worker stores the page and its files, and no answer of the server", async () => {
    const id = await prompt(baton, "simple", "hello", "Is not stored")
    const { page, finish } = await open(browser, baton)
    await controlled(page)
    await page.goto(`${baton.url}/#/s/${id}?panel=files`)
    await page.locator(".tree-row").first().waitFor()
    await page.reload()
    await page.locator(".tree-row").first().waitFor()
    const { urls } = await stored(page)
    assert.ok(urls.length > 3)
    for (const url of urls) assert.match(new URL(url).pathname, /^\/(web\/assets\/.+)?$/)
    const policy = (await baton.fetch("/service-worker.js")).headers
    assert.equal(policy.get("cache-control"), "no-cache")
    assert.match(policy.get("content-security-policy"), /default-src 'none'/)
    await finish()
  })

  test("without a server the page opens, says so, and recovers", async () => {
    const id = await prompt(baton, "simple", "hello", "Comes back")
    const { page, finish, expect } = await open(browser, baton, { fragment: `#/s/${id}` })
    expect(/ERR_|Failed to load|fetch/)
    await controlled(page)
    // The second load goes through the worker, which keeps every file of it.
    await page.reload()
    await page.locator(".end", { hasText: "Completed" }).waitFor()
    await baton.kill()
    await page.reload()
    await page.getByText("Reconnecting…").waitFor()
    await baton.begin()
    await page.locator(".end", { hasText: "Completed" }).waitFor()
    await finish()
  })

  test("a new build is used at once, and the old files go when the last old tab does", async () => {
    const { page, context, finish, expect } = await open(browser, baton)
    expect(/ERR_|404|Failed to load/)
    await controlled(page)
    const [before] = (await stored(page)).names
    const folder = path.join(baton.world.root, "page")
    await mkdir(path.join(folder, "web/assets"), { recursive: true })
    const text = async (target) => (await baton.fetch(target)).text()
    const [shell, worker] = [await text("/"), await text("/service-worker.js")]
    const files = [...new Set([...shell.matchAll(/web\/assets\/[^"]+/g)].map(([file]) => file))]
    for (const file of files) await writeFile(path.join(folder, file), Buffer.from(await (await baton.fetch(`/${file}`)).arrayBuffer()))
    await writeFile(path.join(folder, "index.html"), shell.replace("<noscript>", '<p id="newer"></p><noscript>'))
    await writeFile(path.join(folder, "service-worker.js"), worker.replace(/"build":"\w+"/, '"build":"newer"'))
    await baton.shutdown()
    baton.options.args = ["--web-dir", folder]
    await baton.begin()
    await page.reload()
    await page.locator("#newer").waitFor({ state: "attached" })
    await page.evaluate(() => navigator.serviceWorker.getRegistration().then((it) => it.update()))
    await eventually(page, () => navigator.serviceWorker.getRegistration().then((it) => it.waiting !== null))
    assert.ok((await stored(page)).names.includes(before), "an open tab keeps its files")
    await finish()
    const later = await open(browser, baton, { context })
    later.expect(/ERR_|404|Failed to load/)
    await eventually(later.page, async () => (await caches.keys()).join() === "baton-shell-newer")
    await later.finish()
    await baton.shutdown()
    baton.options.args = process.env.BATON_WEB_DIR ? ["--web-dir", process.env.BATON_WEB_DIR] : []
    await baton.begin()
  })

  test("a notification comes from the worker, and its click opens the session in the tab", async () => {
    const context = await browser.newContext()
    await context.grantPermissions(["notifications"], { origin: baton.url })
    const { page, finish } = await open(browser, baton, { context, fragment: "#/settings/notifications" })
    await controlled(page)
    await page.getByLabel("Show notifications of the browser").check()
    const id = await prompt(baton, "permission", "hello", "Asks from afar")
    const shown = async () => {
      const registration = await navigator.serviceWorker.getRegistration()
      return (await registration.getNotifications()).map(({ title, body, data }) => ({ title, body, data }))
    }
    const found = await eventually(page, async () => {
      const registration = await navigator.serviceWorker.getRegistration()
      return (await registration.getNotifications()).map(({ title, body, data }) => ({ title, body, data }))[0]
    })
    assert.deepEqual(found, { title: "Asks from afar", body: "needs you", data: { link: `#/s/${id}` } })
    const [worker] = context.serviceWorkers()
    await worker.evaluate(async () => {
      const [notification] = await self.registration.getNotifications()
      self.dispatchEvent(new NotificationEvent("notificationclick", { notification }))
    })
    await page.waitForURL(`**/#/s/${id}`)
    await page.locator(".request").waitFor()
    assert.deepEqual(await page.evaluate(shown), [])
    await json(baton, `/session/${id}/abort`, {})
    await finish()
    await context.close()
  })

  test("quiet hours are without notifications", async () => {
    const context = await browser.newContext({ timezoneId: "UTC" })
    await context.grantPermissions(["notifications"], { origin: baton.url })
    const { page, finish } = await open(browser, baton, { context, fragment: "#/settings/notifications" })
    await controlled(page)
    await page.getByLabel("Show notifications of the browser").check()
    await page.getByLabel("Quiet from").fill("00:00")
    await page.getByLabel("until").fill("23:59")
    await page.clock.setFixedTime(new Date("2030-01-01T12:00:00Z"))
    const quiet = await prompt(baton, "permission", "hello", "Asks at night")
    await page.locator(".row", { hasText: "Asks at night" }).and(page.locator('[data-state="needs"]')).waitFor()
    await page.getByLabel("until").fill("11:00")
    const loud = await prompt(baton, "permission", "hello", "Asks by day")
    const told = await eventually(page, async () => {
      const registration = await navigator.serviceWorker.getRegistration()
      const shown = (await registration.getNotifications()).map(({ title }) => title)
      return shown.length > 0 && shown
    })
    assert.deepEqual(told, ["Asks by day"])
    for (const id of [quiet, loud]) await json(baton, `/session/${id}/abort`, {})
    await finish()
    await context.close()
  })
})
