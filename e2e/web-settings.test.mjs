// The settings of the page in a browser: keys, the user's own theme, and signing in to a provider.

import assert from "node:assert/strict"
import { readFile, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { violations } from "./support/axe.mjs"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { configureUser, pluginWorld, putPlugins } from "./support/plugins.mjs"

describe("the settings of the page", needsBrowser(), () => {
  let browser, baton
  before(async () => {
    browser = await launch()
    const world = await pluginWorld()
    await putPlugins(path.join(await configureUser(world, {}), "plugins"), "doorman.ts")
    await writeFile(path.join(world.project, "door.txt"), "http://127.0.0.1:9/")
    baton = await serve({ world })
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  test("a key can be changed, a conflict is shown, and reserved keys are refused", async () => {
    const { page, context, finish } = await open(browser, baton, { fragment: "#/settings/keys" })
    const other = await open(browser, baton, { context })
    await other.page.getByRole("link", { name: "New session" }).first().waitFor()
    const edit = page.getByRole("button", { name: "Change the key: open the palette" })
    await edit.click()
    await page.keyboard.press("Control+v")
    await page.getByText("Ctrl+v has another meaning in the browser.").waitFor()
    await page.keyboard.press("Control+f")
    await page.getByText("The same key: find in the session").waitFor()
    await page.getByText("The same key: open the palette").waitFor()
    await edit.click()
    await page.keyboard.press("Alt+p")
    await page.getByText("The same key").first().waitFor({ state: "detached" })
    const palette = (page) => page.getByRole("combobox", { name: "Palette" })
    await page.keyboard.press("Control+k")
    await page.keyboard.press("Alt+p")
    await palette(page).waitFor()
    await page.keyboard.press("Escape")
    await palette(page).waitFor({ state: "detached" })
    await other.page.keyboard.press("Alt+p")
    await palette(other.page).waitFor()
    await page.reload()
    await page.getByRole("button", { name: "Back to the default: open the palette" }).click()
    await page.keyboard.press("Control+k")
    await palette(page).waitFor()
    await page.keyboard.press("Escape")
    await palette(page).waitFor({ state: "detached" })
    assert.deepEqual(await violations(page), [])
    await other.finish()
    await finish()
  })

  test("another letter answers a request, and the old one no longer does", async () => {
    const { page, finish } = await open(browser, baton, { fragment: "#/settings/keys" })
    await page.getByRole("button", { name: "Change the key: allow once" }).click()
    await page.keyboard.press("o")
    const id = await prompt(baton, "permission", "hello", "Is answered with o")
    await page.goto(`${baton.url}/#/s/${id}`)
    await page.locator('.request[data-armed="true"]').waitFor()
    await page.locator(".transcript").focus()
    await page.keyboard.press("y")
    assert.equal(await page.locator(".request").count(), 1)
    await page.keyboard.press("o")
    await page.locator(".end", { hasText: "Completed" }).waitFor()
    await finish()
  })

  test("an own theme takes colours and lengths, names what it refuses, and loads nothing", async () => {
    const { page, finish } = await open(browser, baton, { fragment: "#/settings/looks" })
    await page.getByLabel("Own", { exact: true }).check()
    await page.getByLabel("Variables of your own theme").fill(":root { --back: #010203; --text: #fefefe; --line: url(https://evil.example/x); --radius: 3px; }")
    const back = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
    await page.waitForFunction(() => getComputedStyle(document.documentElement).backgroundColor === "rgb(1, 2, 3)")
    await page.getByText("Not used").filter({ hasText: "url(https://evil.example/x)" }).waitFor()
    await page.reload()
    await page.getByLabel("Variables of your own theme").waitFor()
    assert.equal(await back(), "rgb(1, 2, 3)")
    await page.getByLabel("High contrast").check()
    await page.waitForFunction(() => getComputedStyle(document.documentElement).backgroundColor !== "rgb(1, 2, 3)")
    await page.getByLabel("High contrast").uncheck()
    await page.getByLabel("Paper").check()
    await page.waitForFunction(() => getComputedStyle(document.documentElement).backgroundColor !== "rgb(1, 2, 3)")
    await finish()
  })

  test("an API key is stored on the server, never shown again, and forgotten", async () => {
    const { page, finish } = await open(browser, baton, { fragment: "#/settings/providers" })
    await page.getByLabel("Filter providers").fill("groq")
    const row = page.locator(".settings-list li", { hasText: "Groq" }).first()
    await row.getByRole("button", { name: "Set key" }).click()
    await row.getByLabel("API key of Groq").fill("key-0123456789")
    await row.getByRole("button", { name: "Save" }).click()
    await row.getByText("connected").waitFor()
    const kept = async () => JSON.parse(await readFile(path.join(baton.world.data, "auth.json"), "utf8")).groq
    assert.equal((await kept()).key, "key-0123456789")
    assert.doesNotMatch(await page.content(), /key-0123456789/)
    await row.getByRole("button", { name: "Forget" }).click()
    await row.getByText("connected").waitFor({ state: "detached" })
    assert.equal(await kept(), undefined)
    await finish()
  })

  test("signed-in browsers are listed, and one signs itself out", async (t) => {
    const guarded = await serve({ env: { BATON_PASSWORD: "sesame, open" } })
    t.after(() => guarded.stop())
    const { page, finish, expect } = await open(browser, guarded, { fragment: "#/settings/browsers" })
    expect(/401/)
    await page.getByLabel("Password").fill("sesame, open")
    await page.getByRole("button", { name: "Sign in" }).click()
    await page.locator(".settings-list li", { hasText: "Chrome" }).waitFor()
    await page.getByRole("button", { name: "Sign out here" }).click()
    await page.getByLabel("Password").waitFor()
    await finish()
  })

  test("a provider is signed in to with questions and a code, or by waiting", async () => {
    const { page, finish, expect } = await open(browser, baton, { fragment: "#/settings/providers" })
    expect(/400/)
    await page.getByLabel("Filter providers").fill("nebius")
    const row = page.locator(".settings-list li", { hasText: "Nebius" })
    await row.getByRole("button", { name: "Sign in: Bring a code back" }).click()
    assert.equal(await row.getByLabel("How large is it?").count(), 0, "not asked before its condition holds")
    await row.getByLabel("Which team?").fill("red")
    await row.getByRole("button", { name: "Continue" }).click()
    await row.getByText("There is no such team").waitFor()
    await row.getByLabel("Which team?").fill("blue")
    await row.getByLabel("How large is it?").selectOption("Small")
    await row.getByRole("button", { name: "Continue" }).click()
    const link = row.getByRole("link", { name: "Open the sign-in page (door.invalid)" })
    assert.deepEqual(
      [await link.getAttribute("href"), await link.getAttribute("rel"), await link.getAttribute("target")],
      ["https://door.invalid/?team=blue", "noopener noreferrer", "_blank"],
    )
    await row.getByLabel("Code from the sign-in page").fill("open-sesame")
    await row.getByRole("button", { name: "Continue" }).click()
    await row.getByText("connected").waitFor()
    const kept = async () => JSON.parse(await readFile(path.join(baton.world.data, "auth.json"), "utf8")).nebius
    assert.equal((await kept()).access, "token-of-blue")
    const signedIn = page.waitForResponse((response) => new URL(response.url()).pathname.endsWith("/oauth/callback"))
    await row.getByRole("button", { name: "Sign in: Wait at the door" }).click()
    assert.equal((await signedIn).status(), 200)
    await row.getByRole("button", { name: "Sign in: Wait at the door" }).waitFor()
    assert.equal((await kept()).access, "waited-0123456789")
    await row.getByRole("button", { name: "Forget" }).click()
    await row.getByText("connected").waitFor({ state: "detached" })
    assert.equal((await json(baton, "/provider")).connected.includes("nebius"), false)
    await finish()
  })
})
