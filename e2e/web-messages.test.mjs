// Actions for messages in the page: edit and send again, take back and bring back, fork, and try again after an error.

import assert from "node:assert/strict"
import { readFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { accessible } from "./support/axe.mjs"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { repository } from "./support/repository.mjs"
import { box, ends, holds } from "./support/screen.mjs"
import { listing } from "./support/server.mjs"
import { eventually } from "./support/stream.mjs"

describe("the messages of the page", needsBrowser(), () => {
  let browser, baton, world
  before(async () => {
    browser = await launch()
    world = await repository({ "README.md": "# A project\n\nSomething to read.\n\nEnd of file.\n" }, {})
    baton = await serve({ world, env: listing("simple") })
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  const readme = () => readFile(path.join(world.project, "README.md"), "utf8")
  const idle = (id) => eventually(baton, async () => !(id in (await json(baton, "/session/status"))), "the end of the turn")
  const again = async (id, scenario, text) => {
    await json(baton, `/session/${id}/prompt_async`, { model: { providerID: "demo", modelID: scenario }, parts: [{ type: "text", text }] })
    await idle(id)
  }
  const prompts = (page) => page.locator(".message.user")
  const menu = async (page, text, action) => {
    const slot = page.locator(".slot", { has: page.locator(".message.user", { hasText: text }) })
    await slot.getByRole("button", { name: "Actions for this message" }).click()
    await slot.getByRole("button", { name: action }).click()
  }
  const confirm = async (page, name) => page.getByRole("dialog").getByRole("button", { name }).click()

  test("prompts are taken back with their files, stay hidden after a reload, and come back", async () => {
    const id = await prompt(baton, "simple", "The first prompt", "Is taken back")
    await idle(id)
    const before = await readme()
    await again(id, "read_edit", "Edit the file")
    const edited = await readme()
    assert.notEqual(edited, before)
    await again(id, "simple", "The third prompt")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await ends(page)
    await menu(page, "Edit the file", "Take back to here…")
    const dialog = page.getByRole("dialog", { name: "Take back 2 prompts?" })
    await dialog.getByText("README.md").waitFor()
    await accessible(page, "take back")
    await confirm(page, "Take back")
    await page.locator(".banner", { hasText: "2 prompts are taken back" }).waitFor()
    assert.equal(await prompts(page).count(), 1)
    assert.equal(await readme(), before)
    await page.reload()
    await page.locator(".banner", { hasText: "2 prompts are taken back" }).waitFor()
    await prompts(page).first().waitFor()
    assert.equal(await prompts(page).count(), 1)
    await page.getByRole("button", { name: "Bring back" }).click()
    await page.locator(".banner").waitFor({ state: "detached" })
    await prompts(page).filter({ hasText: "The third prompt" }).waitFor()
    assert.equal(await readme(), edited)
    await finish()
  })

  test("a prompt is edited and sent again in the place of the old one", async () => {
    const id = await prompt(baton, "simple", "A prompt with a mistake", "Is edited")
    await idle(id)
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await ends(page)
    await menu(page, "A prompt with a mistake", "Edit and send again…")
    await confirm(page, "Take back")
    await holds(page, "A prompt with a mistake")
    assert.equal(await box(page).evaluate((it) => it === document.activeElement), true)
    await box(page).fill("A better prompt")
    await box(page).press("Enter")
    await ends(page)
    await prompts(page).filter({ hasText: "A better prompt" }).waitFor()
    await page.locator(".banner").waitFor({ state: "detached" })
    assert.equal(await prompts(page).count(), 1)
    const stored = await json(baton, `/session/${id}/message`)
    assert.equal(JSON.stringify(stored).includes("with a mistake"), false)
    await finish()
  })

  test("a fork begins before the prompt, whose text is in its composer", async () => {
    const id = await prompt(baton, "simple", "What stays", "Is forked")
    await idle(id)
    await again(id, "simple", "What is asked differently")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await ends(page)
    await menu(page, "What is asked differently", "Fork before this prompt")
    await page.waitForFunction((id) => location.hash.startsWith("#/s/") && !location.hash.includes(id), id)
    await holds(page, "What is asked differently")
    await prompts(page).filter({ hasText: "What stays" }).waitFor()
    assert.equal(await prompts(page).count(), 1)
    await finish()
  })

  test("a menu that cannot be loaded leaves the session as it is, and is there once it can", async () => {
    const id = await prompt(baton, "simple", "Has no menu yet", "Loads its menu late")
    await idle(id)
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
    const refused = { count: 0 }
    await context.route(/prompt-menu-[^/]*\.js/, (route) => {
      refused.count += 1
      return refused.count > 1 ? route.continue() : route.abort()
    })
    const { page, finish, expect } = await open(browser, baton, { context, fragment: `#/s/${id}` })
    expect(/net::ERR_FAILED/)
    await ends(page)
    await box(page).fill("A draft")
    await page.getByRole("button", { name: "Actions for this message" }).waitFor()
    assert.ok(refused.count > 1, "the file was requested again")
    await holds(page, "A draft")
    await finish()
    await context.close()
  })

  test("the menu works with keys, and Escape in it does not stop the turn", async () => {
    const id = await prompt(baton, "slow:10000@20", "Works on", "Has a menu")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.locator(".assistant .markdown").waitFor()
    const button = page.getByRole("button", { name: "Actions for this message" })
    await button.focus()
    await page.keyboard.press("Enter")
    await page.getByRole("button", { name: "Fork before this prompt" }).waitFor()
    await page.keyboard.press("ArrowDown")
    assert.equal(await page.getByRole("button", { name: "Take back to here…" }).count(), 0, "not while a turn runs")
    await page.keyboard.press("Escape")
    await page.getByRole("button", { name: "Fork before this prompt" }).waitFor({ state: "detached" })
    assert.equal(await button.evaluate((it) => it === document.activeElement), true)
    assert.equal(await page.locator(".banner").count(), 0)
    await json(baton, `/session/${id}/abort`, {})
    await ends(page, /Stopped/)
    await finish()
  })

  test("a sentence of the page itself leaves the draft alone", async () => {
    const id = await prompt(baton, "error_400", "Fails", "Has a draft")
    await idle(id)
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.getByRole("button", { name: "Try again" }).waitFor()
    await box(page).fill("a draft")
    // The draft is stored when another page can read it.
    const other = await open(browser, baton, { context: page.context(), fragment: `#/s/${id}` })
    await holds(other.page, "a draft")
    await page.getByRole("button", { name: "Try again" }).click()
    await prompts(page).filter({ hasText: "continue where it stopped" }).waitFor()
    await idle(id)
    await other.page.reload()
    await holds(other.page, "a draft")
    await holds(page, "a draft")
    await other.finish()
    await finish()
  })

  test("keys step from prompt to prompt", async () => {
    const { id } = await json(baton, "/session", { title: "Has many prompts" })
    for (let at = 0; at < 70; at++) {
      const text = `Prompt ${at}. ${"A line to read.\n".repeat(8)}`
      await json(baton, `/session/${id}/message`, { noReply: true, parts: [{ type: "text", text }] })
    }
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await prompts(page).filter({ hasText: "Prompt 69." }).waitFor()
    await page.locator(".transcript").focus()
    // The prompt at the upper edge.
    const atTop = () =>
      page.evaluate(() => {
        const edge = document.querySelector(".transcript").getBoundingClientRect().top
        const slot = [...document.querySelectorAll(".slot")].find((it) => it.getBoundingClientRect().bottom > edge + 1)
        return Number(/Prompt (\d+)\./.exec(slot.innerText)?.[1])
      })
    const first = await (async () => {
      await page.keyboard.press("[")
      return atTop()
    })()
    assert.ok(first > 60 && first < 69, String(first))
    for (let step = 1; step <= 5; step++) {
      await page.keyboard.press("[")
      assert.equal(await atTop(), first - step)
    }
    await page.keyboard.press("]")
    assert.equal(await atTop(), first - 4)
    // Earlier messages are loaded on the way.
    for (let step = 0; step < 70 && (await atTop()) !== 0; step++) {
      await page.keyboard.press("[")
      await page.waitForFunction(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true)))))
    }
    assert.equal(await atTop(), 0)
    await box(page).focus()
    await page.keyboard.type("[x]")
    await holds(page, "[x]")
    await finish()
  })

  test("a prompt can go to another agent", async () => {
    const id = await prompt(baton, "simple", "For the default", "Changes the agent")
    await idle(id)
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await ends(page)
    await page.locator(".composer").getByLabel("Agent").selectOption("plan")
    await box(page).fill("For the plan agent")
    await box(page).press("Enter")
    await page.locator(".assistant").nth(1).waitFor()
    await idle(id)
    assert.equal((await json(baton, `/session/${id}`)).agent, "plan")
    await finish()
  })

  test("on a touch screen Enter begins a line, and the button sends", async () => {
    const id = await prompt(baton, "simple", "Hello", "Is touched")
    await idle(id)
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}`, viewport: { width: 390, height: 700 }, hasTouch: true, isMobile: true })
    await ends(page)
    await box(page).fill("one")
    await box(page).press("Enter")
    await page.keyboard.type("two")
    await holds(page, "one\ntwo")
    assert.equal(await box(page).getAttribute("placeholder"), "Write a prompt")
    await page.getByRole("button", { name: "Send" }).tap()
    await prompts(page).filter({ hasText: "two" }).waitFor()
    await holds(page, "")
    await finish()
  })

  test("on the smallest screen a request does not cover the head of the session", async () => {
    const id = await prompt(baton, "permission", "Asks", "Asks for a permission on a small screen")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}`, viewport: { width: 320, height: 568 } })
    await page.locator('.request[data-armed="true"]').waitFor()
    const { head, dock } = await page.evaluate(() => {
      const box = (selector) => document.querySelector(selector).getBoundingClientRect()
      const { scrollHeight, clientHeight } = document.querySelector(".head")
      return { head: box(".head").bottom + scrollHeight - clientHeight, dock: box(".dock").top }
    })
    assert.ok(dock >= head, `the head ends at ${head}, the dock begins at ${dock}`)
    const hits = await page.locator(".head .menu summary").evaluate((it) => {
      const { left, top, width, height } = it.getBoundingClientRect()
      return it.contains(document.elementFromPoint(left + width / 2, top + height / 2))
    })
    assert.ok(hits, "the menu can be tapped")
    await page.getByRole("button", { name: /^Allow once/ }).click()
    await ends(page)
    await page.goto(`${baton.url}/#/settings/about`)
    await page.locator(".settings-body nav [aria-current]").waitFor()
    const isSeen = () => {
      const { left, right } = document.querySelector(".settings-body nav [aria-current]").getBoundingClientRect()
      return left >= 0 && right <= innerWidth
    }
    await page.waitForFunction(isSeen)
    await finish()
  })

  test("a failed turn can be tried again, and a session that does not exist offers a way on", async () => {
    const id = await prompt(baton, "error_400", "Fails", "Has failed")
    await idle(id)
    const { page, finish, expect } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.locator('.end[data-reason="error"]').getByRole("button", { name: "Try again" }).click()
    await prompts(page).filter({ hasText: "continue where it stopped" }).waitFor()
    await idle(id)
    expect(/404/)
    await page.goto(`${baton.url}/#/s/ses_doesnotexist`)
    await page.getByText("This session does not exist any more.").waitFor()
    await page.getByRole("main").getByRole("link", { name: "Overview" }).click()
    await page.getByRole("heading", { name: "Overview" }).waitFor()
    await finish()
  })
})
