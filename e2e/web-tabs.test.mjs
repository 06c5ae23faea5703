// Twelve tabs of one browser: one event stream, one notification, and a tab with the stream that stops to run.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { row, state } from "./support/screen.mjs"
import { Tape } from "./support/tape.mjs"

const TABS = 12
// Longer than the other tabs wait for a silent one.
const SILENCE_MS = 16_000

// Replaces the browser's notifications by calls to the test.
const RECORD = () => {
  window.Notification = class {
    static permission = "granted"
    static requestPermission = async () => "granted"
    constructor(title) {
      void window.told(title)
    }
    close() {}
  }
  localStorage.setItem("baton notifications", JSON.stringify({ isOn: true, isOffered: true }))
}

describe("twelve tabs", needsBrowser(), () => {
  let browser, baton
  before(async () => {
    browser = await launch()
    baton = await serve()
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  test("tabs share one stream and tell an event once, also after the tab with the stream was frozen", async () => {
    const { id } = await json(baton, "/session", { title: "Is in front" })
    const context = await browser.newContext()
    await context.clock.install()
    await context.addInitScript(RECORD)
    const tape = new Tape()
    await context.exposeFunction("told", (title) => tape.push({ title }))
    const told = (title) => tape.until((notice) => notice.title === title, `the notification “${title}”`)
    const streams = []
    context.on("request", (request) => request.url().includes("/global/event") && streams.push(request.frame().page()))
    const tabs = []
    for (let at = 0; at < TABS; at++) {
      tabs.push(await open(browser, baton, { fragment: `#/s/${id}`, context }))
      await row(tabs.at(-1).page, "Is in front").waitFor()
    }
    assert.deepEqual(streams, [tabs[0].page], "the first tab opens the only stream")

    await prompt(baton, "error_400", "hello", "Fails for all")
    for (const { page } of tabs) await state(page, "Fails for all", "error")
    await told("Fails for all")

    const [holder, next, ...others] = tabs
    // Only a tab that the user sees replaces a silent one.
    for (const { page } of others) await page.evaluate(() => Object.defineProperty(document, "hidden", { value: true }))
    const debug = await context.newCDPSession(holder.page)
    await debug.send("Page.setWebLifecycleState", { state: "frozen" })
    const taken = context.waitForEvent("request", (request) => request.url().includes("/global/event"))
    await next.page.clock.fastForward(SILENCE_MS)
    await taken
    await prompt(baton, "error_400", "hello", "Fails while one is frozen")
    for (const { page } of [next, ...others]) await state(page, "Fails while one is frozen", "error")
    await told("Fails while one is frozen")
    assert.deepEqual(streams, [holder.page, next.page], "one tab takes over")

    await debug.send("Page.setWebLifecycleState", { state: "active" })
    await prompt(baton, "error_400", "hello", "Fails after the thaw")
    for (const { page } of tabs) await state(page, "Fails after the thaw", "error")
    for (const { page } of tabs) await state(page, "Fails while one is frozen", "error")
    await told("Fails after the thaw")
    assert.deepEqual(
      tape.events.map(({ title }) => title),
      ["Fails for all", "Fails while one is frozen", "Fails after the thaw"],
    )
    for (const { finish } of tabs) await finish()
    await context.close()
  })
})
