// The page without a mouse: the main tasks with keys only, the words for screen readers, and a zoom of 200 %.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { accessible } from "./support/axe.mjs"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { repository } from "./support/repository.mjs"
import { armed, box, ends, holds, row } from "./support/screen.mjs"
import { listing } from "./support/server.mjs"
import { signal } from "./support/wait.mjs"

// More stops than any screen has.
const MAX_STOPS = 120

// The name of the element with the focus, and if the focus can be seen.
const focused = (page) =>
  page.evaluate(() => {
    const it = document.activeElement
    const name = it.ariaLabel ?? it.labels?.[0]?.innerText ?? it.innerText ?? ""
    // The box around the prompt shows the focus of the field in it.
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(it.closest(".composer:has(textarea:focus)") ?? it)
    const isSeen = (outlineStyle !== "none" && outlineWidth !== "0px") || boxShadow !== "none"
    return { name: (name || it.title || "").trim(), tag: it.tagName, isSeen }
  })

// Moves the focus with the tab key until it is on an element with this name.
async function tabTo(page, name, key = "Tab") {
  const stops = []
  for (let stop = 0; stop < MAX_STOPS; stop++) {
    await page.keyboard.press(key)
    const found = await focused(page)
    stops.push(found.name)
    if (found.tag !== "BODY") assert.ok(found.isSeen, `the focus on “${found.name}” cannot be seen`)
    if (typeof name === "string" ? found.name === name : name.test(found.name)) return
  }
  assert.fail(`no element is named ${name}: ${stops.join(" · ")}`)
}

describe("the page with keys only", needsBrowser(), () => {
  let browser, baton
  before(async () => {
    browser = await launch()
    const world = await repository({ "README.md": "one\n" }, { "README.md": "two\n" })
    baton = await serve({ world, env: listing("simple", "permission", "slow:10000@20") })
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  test("letters that are typed before the search or the palette exists are not lost", async () => {
    const id = await prompt(baton, "simple", "hello", "Is searched at once")
    const { page, context, finish } = await open(browser, baton, { fragment: `#/s/${id}`, serviceWorkers: "block" })
    await ends(page)
    // The code of both arrives late.
    const late = signal()
    await context.route(/(find|palette)-[^/]*\.js/, async (route) => {
      await late.promise
      await route.continue()
    })
    await box(page).focus()
    await page.keyboard.press("Control+f")
    await page.keyboard.type("helpx")
    await page.keyboard.press("Backspace")
    await page.keyboard.press("Enter")
    late.resolve()
    await page.waitForFunction(() => document.activeElement?.closest(".find"))
    assert.equal(await page.evaluate(() => document.activeElement.value), "help")
    await page.keyboard.press("Backspace")
    await page.keyboard.type("lo")
    await page.locator(".find-count", { hasText: /match/ }).waitFor()
    await holds(page, "")
    // The same key again selects the text, as in a browser.
    await box(page).focus()
    await page.keyboard.press("Control+f")
    await page.keyboard.type("zz")
    assert.equal(await page.evaluate(() => document.activeElement.value), "zz")
    await page.keyboard.press("Escape")
    await box(page).focus()
    await page.keyboard.press("Control+k")
    await page.keyboard.type("searched at")
    await page.locator('.palette [role="option"]', { hasText: "Is searched at once" }).waitFor()
    assert.equal(await page.evaluate(() => document.activeElement.value), "searched at")
    await page.keyboard.press("Escape")
    await holds(page, "")
    await finish()
  })

  test("the ten main tasks", async () => {
    await prompt(baton, "simple", "hello", "An older session")
    const asking = await prompt(baton, "permission", "hello", "Asks for a permission")
    const { page, finish } = await open(browser, baton)
    await row(page, "An older session").waitFor()
    const palette = async (text) => {
      await page.keyboard.press("Control+k")
      await page.getByRole("combobox", { name: "Palette" }).waitFor()
      await page.keyboard.type(text)
      await page.locator(".palette").getByRole("option", { name: text }).first().waitFor()
      const chosen = page.locator('.palette [role="option"][aria-selected="true"]', { hasText: text })
      for (let step = 0; step < MAX_STOPS && (await chosen.count()) === 0; step++) await page.keyboard.press("ArrowDown")
      await page.keyboard.press("Enter")
    }

    // 1. Start a session.
    await page.keyboard.press("Control+Shift+O")
    await page.getByLabel("Directory").waitFor()
    await tabTo(page, "Model")
    await page.keyboard.type("simple")
    await tabTo(page, "Prompt")
    await page.keyboard.type("Say hello")
    await page.keyboard.press("Enter")
    await page.locator(".assistant", { hasText: "All is well." }).waitFor()
    await ends(page)

    // 2. Send a second prompt.
    await tabTo(page, "Prompt")
    await page.keyboard.type("And again")
    await page.keyboard.press("Enter")
    await page.locator(".assistant").nth(1).waitFor()
    await ends(page)

    // 3. Go to another session, 4. answer its request.
    await palette("Asks for a permission")
    await armed(page)
    await page.locator(".transcript").waitFor()
    await page.keyboard.press("Escape")
    await tabTo(page, /^Allow once/)
    await page.keyboard.press("Enter")
    await page.locator(".request").waitFor({ state: "detached" })
    await ends(page)
    assert.match(page.url(), new RegExp(asking))

    // 5. Find a text, 6. close the search.
    await page.keyboard.press("Control+f")
    await page.waitForFunction(() => document.activeElement?.closest(".find"))
    await page.keyboard.type("permission")
    await page.locator(".find-count", { hasText: /match/ }).waitFor()
    await page.keyboard.press("Enter")
    await page.locator(".find-count", { hasText: "1 of" }).waitFor()
    await page.keyboard.press("Escape")
    await page.locator(".find-count").waitFor({ state: "detached" })

    // 7. Read the changes, and close them.
    await tabTo(page, "Changes")
    await page.keyboard.press("Enter")
    await page.locator("aside.panel").waitFor()
    await tabTo(page, "Close the panel")
    await page.keyboard.press("Enter")
    await page.locator("aside.panel").waitFor({ state: "detached" })

    // 8. Stop a turn that has a waiting prompt.
    const busy = await prompt(baton, "slow:10000@20", "hello", "Works for long")
    await palette("Works for long")
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor()
    await tabTo(page, "Prompt")
    await page.keyboard.type("later")
    await tabTo(page, /^Queue/)
    await page.keyboard.press("Enter")
    await page.locator(".queue li", { hasText: "later" }).waitFor()
    await page.keyboard.press("Escape")
    await page.locator(".banner", { hasText: "waiting prompt" }).waitFor()
    await page.keyboard.press("Escape")
    await page.locator(".end", { hasText: "Stopped" }).waitFor()
    assert.match(page.url(), new RegExp(busy))

    // 9. Rename the session.
    await tabTo(page, /^(⋯|Menu|More)/)
    await page.keyboard.press("Enter")
    await tabTo(page, "Rename…")
    await page.keyboard.press("Enter")
    await page.getByLabel("Title", { exact: true }).waitFor()
    await page.keyboard.press("Control+a")
    await page.keyboard.type("Has another name")
    await page.keyboard.press("Enter")
    await row(page, "Has another name").waitFor()

    // 10. Change a setting.
    await palette("Settings: Looks")
    await page.getByRole("heading", { name: "Looks" }).waitFor()
    await tabTo(page, /^Language/)
    await page.keyboard.type("Deutsch")
    await page.getByRole("heading", { name: "Aussehen" }).waitFor()
    await finish()
  })

  test("the live region tells states, and never the text of an answer", async () => {
    const { id } = await json(baton, "/session", { title: "Is heard" })
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await row(page, "Is heard").waitFor()
    await page.evaluate(() => {
      const region = document.querySelector('.hidden[role="status"]')
      window.heard = []
      new MutationObserver(() => window.heard.push(region.textContent)).observe(region, { childList: true, characterData: true, subtree: true })
    })
    const say = (model, text) =>
      json(baton, `/session/${id}/prompt_async`, { model: { providerID: "demo", modelID: model }, parts: [{ type: "text", text }] })
    await say("permission", "please")
    await armed(page)
    await page.keyboard.press("y")
    await ends(page)
    const hears = (pattern) => page.waitForFunction((source) => new RegExp(source, "i").test(window.heard.at(-1)), pattern.source)
    await hears(/Is heard: (Completed|Idle)/)
    // Long enough to be heard: states that begin and end within one frame are not told.
    await say("slow:10000@20", "run")
    await hears(/Is heard: working/)
    await json(baton, `/session/${id}/abort`, {})
    await hears(/Is heard: (Completed|Idle)/)
    const heard = await page.evaluate(() => window.heard)
    assert.ok(heard.some((text) => /Is heard: needs you/i.test(text)), heard.join(" · "))
    for (const text of heard) assert.doesNotMatch(text, /I need a permission|The command has run/)
    await finish()
  })

  test("requests and ends of other sessions are told briefly", async () => {
    const { id } = await json(baton, "/session", { title: "Is on the screen" })
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await row(page, "Is on the screen").waitFor()
    await page.evaluate(() => {
      const region = document.querySelector('.elsewhere[role="status"]')
      window.heard = []
      new MutationObserver(() => window.heard.push(region.textContent)).observe(region, { childList: true, characterData: true, subtree: true })
    })
    const hears = (text) => page.waitForFunction((text) => window.heard.includes(text), text)
    const asking = await prompt(baton, "permission", "please", "Asks elsewhere")
    await hears("Asks elsewhere: needs you")
    const [request] = (await json(baton, "/permission")).filter(({ sessionID }) => sessionID === asking)
    await json(baton, `/permission/${request.id}/reply`, { reply: "once" })
    await hears("Asks elsewhere: Completed")
    await json(baton, `/session/${id}/prompt_async`, { model: { providerID: "demo", modelID: "simple" }, parts: [{ type: "text", text: "hello" }] })
    await ends(page)
    // The sentence goes, so that an equal one is told again.
    await hears("")
    assert.ok(!(await page.evaluate(() => window.heard)).some((text) => text.includes("Is on the screen")))
    await finish()
  })

  test("a draft keeps the focus while another session asks", async () => {
    const { id } = await json(baton, "/session", { title: "Is written in" })
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await row(page, "Is written in").waitFor()
    await tabTo(page, "Prompt")
    await page.keyboard.type("one ")
    const asking = await prompt(baton, "permission", "hello", "Asks meanwhile")
    await page.locator('.row[data-state="needs"]', { hasText: "Asks meanwhile" }).waitFor()
    await page.keyboard.type("two")
    await holds(page, "one two")
    await json(baton, `/session/${asking}/abort`, {})
    await finish()
  })

  // A window of 1280 by 800 pixels with a zoom of 200 % has half as many pixels of the page in each direction.
  test("with a zoom of 200 % nothing is cut off", async () => {
    const id = await prompt(baton, "simple", "hello", "A session with a title that is much longer than the space for it in a window that is zoomed")
    const { page, finish } = await open(browser, baton, { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 })
    for (const [fragment, sign] of [
      ["#/", ".rows"],
      [`#/s/${id}`, ".message.assistant"],
      [`#/s/${id}?panel=changes&scope=tree`, ".diff-line"],
      ["#/new", ".new"],
      ["#/needs", ".screen-head"],
      ["#/settings/looks", ".settings-body h3"],
    ]) {
      await page.goto(`${baton.url}/${fragment}`)
      await page.locator(sign).first().waitFor()
      await accessible(page, fragment)
    }
    await finish()
  })
})
