// The page where it is delivered otherwise: below a prefix of a proxy, and to a browser without JavaScript.

import assert from "node:assert/strict"
import { describe, test } from "node:test"
import { launch, needsBrowser, open, serve } from "./support/browser.mjs"
import { Flaky } from "./support/flaky.mjs"
import { ends } from "./support/screen.mjs"
import { listing } from "./support/server.mjs"

const PREFIX = "/tools/baton"

describe("the page behind a proxy", needsBrowser(), () => {
  const setup = async (t, env = {}) => {
    const baton = await serve({ env: { ...listing("simple"), ...env } })
    const proxy = await Flaky.start(baton.url, 1, { prefix: PREFIX })
    const browser = await launch()
    t.after(async () => {
      await browser.close()
      await proxy.close()
      await baton.stop()
    })
    return { browser, server: { url: `${proxy.url}${PREFIX}` } }
  }

  test("below a prefix, a session is started, loaded again and found by its address", async (t) => {
    const { browser, server } = await setup(t)
    const { page, finish } = await open(browser, server, { fragment: "#/new" })
    await page.getByLabel("Model").selectOption("demo/simple")
    await page.getByLabel("Prompt").fill("Say hello")
    await page.getByLabel("Prompt").press("Enter")
    await page.locator(".assistant .markdown", { hasText: "All is well." }).waitFor()
    await ends(page)
    assert.match(page.url(), new RegExp(`${PREFIX}/#/s/ses_`))
    await page.reload()
    await page.locator(".assistant .markdown", { hasText: "All is well." }).waitFor()
    await finish()
  })

  test("below a prefix, a browser signs in and stays signed in", async (t) => {
    const { browser, server } = await setup(t, { BATON_PASSWORD: "sesame" })
    const { page, context, finish, expect } = await open(browser, server)
    expect(/401/)
    await page.getByLabel("Password").fill("sesame")
    await page.getByRole("button", { name: "Sign in" }).click()
    await page.locator(".side .empty", { hasText: "No session yet" }).waitFor()
    const [cookie] = await context.cookies(`${server.url}/`)
    assert.equal(cookie.path, `${PREFIX}/`, "other programs behind the proxy do not get the cookie")
    await page.reload()
    await page.locator(".side .empty", { hasText: "No session yet" }).waitFor()
    await finish()
  })

  test("without JavaScript, one sentence says what is needed", async (t) => {
    const { browser, server } = await setup(t)
    const { page, finish } = await open(browser, server, { javaScriptEnabled: false })
    assert.match(await page.locator("body").innerText(), /^This page shows live sessions and needs JavaScript\. The API works without it\.$/)
    await finish()
  })
})
