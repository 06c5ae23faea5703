// The page's other screens in a browser: overview, *needs you*, palette, find, settings, languages.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { accessible } from "./support/axe.mjs"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { repository } from "./support/repository.mjs"
import { armed } from "./support/screen.mjs"
import { listing } from "./support/server.mjs"

describe("the screens of the page", needsBrowser(), () => {
  let browser, baton
  before(async () => {
    browser = await launch()
    baton = await serve({ world: await repository({ "README.md": "one\n" }, { "README.md": "two\n" }), env: listing("simple") })
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  const tile = (page, title) => page.locator(".tile", { hasText: title })

  test("the overview shows the activity of sessions without opening them", async () => {
    const { page, finish } = await open(browser, baton)
    await page.getByText("No session yet").first().waitFor()
    const busy = await prompt(baton, "slow:10000@20", "hello", "Works for long")
    await tile(page, "Works for long").and(page.locator('[data-state="working"]')).waitFor()
    await tile(page, "Works for long").locator(".tile-line", { hasText: "tick" }).waitFor()
    const asking = await prompt(baton, "permission", "hello", "Asks in the overview")
    await page.locator(".tile-group", { hasText: "needs you" }).getByText("Asks in the overview").waitFor()
    await page.getByLabel("Group by").selectOption("project")
    await page.locator(".tile-group h3").getByRole("link", { name: "project" }).click()
    await page.getByRole("heading", { name: "project" }).first().waitFor()
    await tile(page, "Works for long").click()
    await page.getByRole("button", { name: "Stop" }).click()
    await page.locator(".end", { hasText: "Stopped" }).waitFor()
    assert.match(page.url(), new RegExp(busy))
    await json(baton, `/session/${asking}/abort`, {})
    await finish()
  })

  test("*needs you* is one queue: the next request follows, then failed turns", async () => {
    await prompt(baton, "permission", "hello", "Asks first")
    await prompt(baton, "permission", "hello", "Asks second")
    await prompt(baton, "subagent_permission", "hello", "Has a subagent that asks")
    const { page, finish } = await open(browser, baton, { fragment: "#/needs" })
    await page.locator(".side-links .badge", { hasText: "3" }).waitFor()
    for (const title of ["Asks first", "Asks second", "Has a subagent that asks"]) {
      await page.locator(".asking h3", { hasText: title }).waitFor()
      await armed(page)
      assert.equal(await page.locator(".request").count(), 1, "keys reach one request only")
      await page.keyboard.press("y")
      await page.locator(".asking h3", { hasText: title }).waitFor({ state: "detached" })
    }
    await prompt(baton, "error_400", "hello", "Goes wrong")
    await page.locator(".need", { hasText: "Goes wrong" }).click()
    await page.getByLabel("Prompt").waitFor()
    await page.goto(`${baton.url}/#/needs`)
    await page.getByText("Goes wrong").first().waitFor()
    await finish()
  })

  test("find searches the whole history, steps through it, and leaves the transcript as it is", async () => {
    const { id } = await json(baton, "/session", { title: "Is searched" })
    for (let at = 0; at < 120; at++) {
      const text = at % 60 === 3 ? `${at}: the needle is here` : `${at}: hay`
      await json(baton, `/session/${id}/message`, { noReply: true, parts: [{ type: "text", text }] })
    }
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.locator(".message", { hasText: "119: hay" }).waitFor()
    await page.keyboard.press("Control+f")
    const box = page.getByRole("searchbox", { name: "Find in this session" })
    await box.fill("NEEDLE")
    await page.locator(".find-count", { hasText: /^2 matches$/ }).waitFor()
    await box.press("Enter")
    await page.locator(".find-count", { hasText: "1 of 2" }).waitFor()
    await page.locator(".message", { hasText: "3: the needle is here" }).first().waitFor()
    await page.waitForFunction(() => CSS.highlights.get("find-current")?.size === 1)
    await box.press("Enter")
    await page.locator(".message", { hasText: "63: the needle is here" }).waitFor()
    await box.press("Escape")
    await box.waitFor({ state: "detached" })
    assert.equal(await page.evaluate(() => CSS.highlights.size), 0)
    const message = await page.locator(".message", { hasText: "63: the needle" }).getAttribute("id")
    await page.goto(`${baton.url}/#/`)
    await page.goto(`${baton.url}/#/s/${id}/m/${message}`)
    await page.locator(".message", { hasText: "63: the needle" }).waitFor()
    await finish()
  })

  test("the palette goes to sessions, files and screens, and remembers", async () => {
    const { id } = await json(baton, "/session", { title: "A zebra" })
    const { page, finish } = await open(browser, baton, { fragment: "#/settings" })
    await page.getByRole("heading", { name: "Looks" }).waitFor()
    await page.keyboard.press("Control+k")
    const box = page.getByRole("combobox", { name: "Palette" })
    await box.fill("zeb")
    await page.getByRole("option", { name: "A zebra" }).waitFor()
    await box.press("Enter")
    await page.getByRole("heading", { name: "A zebra" }).waitFor()
    assert.match(page.url(), new RegExp(id))
    await page.keyboard.press("Control+k")
    await box.fill("READ")
    await page.getByRole("option", { name: "README.md" }).click()
    await page.locator(".source-line", { hasText: "two" }).waitFor()
    await page.keyboard.press("Control+Shift+f")
    await page.getByRole("option", { name: "A zebra" }).waitFor()
    await page.keyboard.press("Escape")
    await box.waitFor({ state: "detached" })
    const { id: other } = await json(baton, "/session", { title: "Has the word" })
    await json(baton, `/session/${other}/message`, { noReply: true, parts: [{ type: "text", text: "an aardvark appears" }] })
    await page.keyboard.press("Control+k")
    await box.fill("aardv")
    await page.getByRole("option", { name: "an aardvark appears" }).click()
    await page.locator(".message.user", { hasText: "aardvark" }).waitFor()
    assert.match(page.url(), new RegExp(`${other}/m/msg_`))
    await page.keyboard.press("Control+k")
    await box.waitFor()
    await page.keyboard.press("Escape")
    await box.waitFor({ state: "detached" })
    await page.locator(".transcript").focus()
    await page.keyboard.press("?")
    await page.getByRole("dialog", { name: "Keys" }).getByText("open the palette").waitFor()
    await finish()
  })

  test("totals show tokens and the share of the context", async () => {
    const id = await prompt(baton, "simple", "hello", "Is counted")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.locator(".end", { hasText: "Completed" }).waitFor()
    await page.getByRole("button", { name: "Tokens and cost" }).click()
    await page.getByText(/Context: \d+ of 128K tokens/).waitFor()
    assert.match(await page.locator(".totals-table tr", { hasText: "Session" }).innerText(), /\d/)
    await finish()
  })

  test("looks and language last, and reach other tabs", async () => {
    const { page, context, finish } = await open(browser, baton, { fragment: "#/settings/looks" })
    const other = await open(browser, baton, { context })
    await page.getByLabel("Forest").check()
    await page.getByLabel("Dark", { exact: true }).check()
    await page.getByLabel("High contrast").check()
    await page.getByLabel("Language").selectOption("Deutsch")
    await page.getByRole("heading", { name: "Aussehen" }).waitFor()
    await other.page.getByRole("link", { name: "Übersicht" }).waitFor()
    await page.reload()
    await page.getByRole("heading", { name: "Aussehen" }).waitFor()
    assert.deepEqual(
      await page.evaluate(() => ({ lang: document.documentElement.lang, ...document.documentElement.dataset })),
      { lang: "de", theme: "forest", look: "dark", density: "comfortable", contrast: "more" },
    )
    assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), "dark")
    await other.finish()
    await finish()
  })

  test("a browser in German gets German words", async () => {
    const { page, finish } = await open(browser, baton, { locale: "de-DE" })
    await page.getByRole("link", { name: "Neue Sitzung" }).first().waitFor()
    await finish()
  })

  test("approvals are listed and forgotten, and what is stored here can be cleared", async () => {
    const id = await prompt(baton, "permission", "hello", "Is always allowed")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await armed(page)
    await page.getByRole("button", { name: "Always…" }).click()
    await page.locator('.request[data-armed="true"]').waitFor()
    await page.getByRole("button", { name: "Always allow" }).click()
    await page.locator(".end", { hasText: "Completed" }).waitFor()
    await page.goto(`${baton.url}/#/settings/approvals`)
    const row = page.locator(".settings-list li", { hasText: "touch *" })
    await row.getByRole("button", { name: "Forget" }).click()
    await row.waitFor({ state: "detached" })
    const { data } = await json(baton, "/api/permission/saved")
    assert.equal(data.some((it) => it.resource === "touch *"), false)
    await page.goto(`${baton.url}/#/settings/storage`)
    await page.getByRole("button", { name: "Clear" }).click()
    await page.getByRole("dialog").getByRole("button", { name: "Clear" }).click()
    await page.getByRole("dialog").waitFor({ state: "detached" })
    assert.equal(await page.evaluate(() => Object.keys(localStorage).filter((key) => key.startsWith("baton settings")).length), 0)
    for (const [section, text] of [
      ["providers", "Demo"],
      ["mcp", "names no MCP server"],
      ["browsers", "has no password"],
      ["notifications", "A notification tells"],
      ["keys", "open the palette"],
      ["about", "solid-js"],
    ]) {
      await page.goto(`${baton.url}/#/settings/${section}`)
      await page.getByText(text).first().waitFor()
    }
    await finish()
  })

  test("a new session starts in a new worktree, and a failure keeps the prompt", async () => {
    const { page, finish, expect } = await open(browser, baton, { fragment: "#/new" })
    await page.getByLabel("Model").selectOption("demo/simple")
    await page.getByLabel("Agent").selectOption("build")
    await page.getByLabel("Directory").fill("/does/not/exist")
    await page.getByLabel("In a new worktree").check()
    await page.getByLabel("Prompt").fill("Say hello apart")
    await page.getByRole("button", { name: "Start" }).click()
    expect(/40\d/)
    await page.getByRole("alert").waitFor()
    await page.reload()
    assert.equal(await page.getByLabel("Prompt").inputValue(), "Say hello apart")
    await page.getByLabel("Model").selectOption("demo/simple")
    await page.getByLabel("In a new worktree").check()
    await page.getByRole("button", { name: "Start" }).click()
    await page.locator(".assistant", { hasText: "All is well" }).waitFor()
    const found = await json(baton, "/experimental/worktree")
    assert.equal(found.length, 1)
    await finish()
  })

  for (const colorScheme of ["light", "dark"]) {
    for (const [name, viewport] of [
      ["desktop", { width: 1280, height: 800 }],
      ["phone", { width: 320, height: 568 }],
    ]) {
      test(`axe finds nothing on these screens (${colorScheme}, ${name})`, async () => {
        const id = await prompt(baton, "read_edit", "hello", `Is checked ${colorScheme} ${name}`)
        const { page, finish } = await open(browser, baton, { fragment: "#/", colorScheme, viewport })
        const screens = [
          ["#/", ".rows"],
          ["#/needs", ".screen-head"],
          ["#/new", ".new"],
          [`#/s/${id}?panel=changes&scope=tree`, ".diff-line"],
          [`#/s/${id}?panel=files`, ".tree-row"],
          [`#/s/${id}?panel=files&file=README.md`, ".source-line"],
          [`#/s/${id}?panel=todos`, ".panel .empty"],
          [`#/s/${id}?panel=events`, ".figures"],
          ...["looks", "keys", "notifications", "approvals", "providers", "mcp", "browsers", "storage", "about"].map((it) => [`#/settings/${it}`, ".settings-body h3"]),
        ]
        for (const [fragment, sign] of screens) {
          await page.goto(`${baton.url}/${fragment}`)
          await page.locator(sign).first().waitFor()
          await accessible(page, fragment)
        }
        await page.keyboard.press("Control+k")
        await page.locator(".palette").waitFor()
        await accessible(page, "palette")
        await finish()
      })
    }
  }
})
