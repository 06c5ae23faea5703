// The web page while agents work: drafts, prompts, retries, continuations, subagents, unread turns and notifications.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { armed, box, holds, row, state } from "./support/screen.mjs"
import { World, listing } from "./support/server.mjs"
import { Tape } from "./support/tape.mjs"

const PICTURE = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
)

const finish = { do: "finish", reason: "stop" }
const tools = { do: "finish", reason: "tool-calls" }
const task = (prompt) => ({ do: "tool", name: "task", input: { description: "Part", prompt, subagent_type: "general" } })

const SCENARIOS = {
  twins: {
    about: "gives tasks to two subagents",
    steps: [[task("[[scenario:simple]] one"), task("[[scenario:permission]] two"), tools], [{ do: "text", text: "Both are done." }, finish]],
  },
}

// Replaces the browser's notifications by calls to the test.
const RECORD = () => {
  window.Notification = class {
    static permission = "granted"
    static requestPermission = async () => "granted"
    constructor(title, options) {
      void window.told({ title, ...options })
    }
    close() {}
  }
}

describe("the web page while agents work", needsBrowser(), () => {
  let browser, baton
  before(async () => {
    browser = await launch()
    const world = await World.create()
    await world.configure({ continuation: { countdown_ms: 60_000 } })
    baton = await serve({ world, scenarios: SCENARIOS, env: listing("simple") })
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  const make = async (title) => (await json(baton, "/session", { title })).id

  test("a draft with a file is kept over a reload and a crash of the page, and removed when it is sent", async () => {
    const id = await make("Has a draft")
    const one = await open(browser, baton, { fragment: `#/s/${id}` })
    await box(one.page).fill("a text")
    await one.page.locator('input[type="file"]').setInputFiles({ name: "dot.png", mimeType: "image/png", buffer: PICTURE })
    await one.page.locator(".attachments li", { hasText: "dot.png" }).waitFor()
    await box(one.page).fill("a text, changed at the last moment")
    await one.page.reload()
    await holds(one.page, "a text, changed at the last moment")
    await one.page.locator(".attachments li", { hasText: "dot.png" }).waitFor()
    // A crash gives the page no chance to store anything.
    await box(one.page).fill("before the crash")
    const two = await open(browser, baton, { fragment: `#/s/${id}`, context: one.context })
    await holds(two.page, "before the crash")
    const crashed = one.page.waitForEvent("crash")
    one.page.goto("chrome://crash").catch(() => {})
    await crashed
    await two.page.reload()
    await holds(two.page, "before the crash")
    await two.page.getByLabel("Model").selectOption("demo/simple")
    await two.page.getByRole("button", { name: "Send" }).click()
    await two.page.locator(".message.user .picture").waitFor()
    await two.page.locator(".assistant", { hasText: "All is well." }).waitFor()
    await two.page.reload()
    await two.page.locator(".message.user", { hasText: "before the crash" }).waitFor()
    await holds(two.page, "")
    assert.equal(await two.page.locator(".attachments li").count(), 0)
    await two.finish()
    await one.context.close()
  })

  test("two tabs share a draft, and a text that loses is kept", async () => {
    const id = await make("Has a shared draft")
    const one = await open(browser, baton, { fragment: `#/s/${id}` })
    const two = await open(browser, baton, { fragment: `#/s/${id}`, context: one.context })
    await box(one.page).fill("from the first tab")
    await holds(two.page, "from the first tab")
    // Both edit before either has heard of the other.
    await Promise.all([box(one.page).fill("first wins?"), box(two.page).fill("second wins?")])
    await Promise.any([one.page.locator(".earlier").waitFor(), two.page.locator(".earlier").waitFor()])
    const page = (await one.page.locator(".earlier").count()) > 0 ? one.page : two.page
    const kept = await box(page).inputValue()
    await page.getByRole("button", { name: "Restore" }).click()
    await page.waitForFunction((kept) => document.querySelector(".composer textarea").value !== kept, kept)
    assert.deepEqual(["first wins?", "second wins?"].filter((text) => text !== kept), [await box(page).inputValue()])
    await one.finish()
    await two.finish()
  })

  test("files that the server would refuse are named before the prompt is sent", async () => {
    const id = await make("Has large files")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.locator('input[type="file"]').setInputFiles({ name: "big.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc(5 * 1024 * 1024) })
    await page.getByText("big.bin is larger than 5 MiB.").waitFor()
    assert.equal(await page.locator(".attachments li").count(), 0)
    await page.evaluate(() => {
      const data = new DataTransfer()
      data.setData("text/plain", "a line\n".repeat(300))
      document.querySelector(".composer textarea").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }))
    })
    await page.locator(".attachments li", { hasText: "pasted.txt" }).waitFor()
    await finish()
  })

  test("a retry counts down, and stop ends it", async () => {
    const id = await prompt(baton, "error_500_forever", "hello", "Retries")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    const banner = page.locator('.banner[data-kind="retry"]')
    await banner.waitFor()
    assert.match(await banner.innerText(), /Attempt \d+ of \d+\s+(in \d+ s|now)/)
    await state(page, "Retries", "retrying")
    await page.getByRole("button", { name: "Stop" }).click()
    await page.locator(".end", { hasText: "Stopped" }).waitFor()
    await banner.waitFor({ state: "detached" })
    await finish()
  })

  test("a countdown shows the next round, can be stopped, and leaves the reason", async () => {
    const { page, finish } = await open(browser, baton)
    await page.locator(".row").first().waitFor()
    const id = await prompt(baton, "todo", "hello", "Continues")
    await page.goto(`${baton.url}/#/s/${id}`)
    const banner = page.locator('.banner[data-kind="countdown"]')
    await banner.waitFor()
    assert.match(await banner.innerText(), /Continues by itself in \d+ s/)
    assert.match(await banner.innerText(), /round 1, 2 open todos/)
    assert.equal(await page.getByRole("button", { name: "Stop", exact: true }).count(), 1, "the turn is not over")
    await page.getByRole("button", { name: "Do not continue" }).click()
    await banner.waitFor({ state: "detached" })
    await page.locator(".left", { hasText: "the continuation was stopped" }).waitFor()
    await page.reload()
    await page.locator(".left", { hasText: "the continuation was stopped" }).waitFor()
    await finish()
  })

  test("now ends a countdown with a prompt", async () => {
    const { page, finish } = await open(browser, baton)
    await page.locator(".row").first().waitFor()
    const id = await prompt(baton, "todo", "hello", "Continues now")
    await page.goto(`${baton.url}/#/s/${id}`)
    await page.locator('.banner[data-kind="countdown"]').getByRole("button", { name: "Now" }).click()
    await page.locator(".message.user", { hasText: "Continue with the open todos." }).waitFor()
    await json(baton, `/session/${id}/abort`, {})
    await finish()
  })

  test("Escape shows what a stop would end, and a second one stops", async () => {
    const id = await prompt(baton, "slow:10000@20", "hello", "Is stopped with keys")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.getByRole("button", { name: "Queue" }).waitFor()
    await box(page).fill("next")
    await page.getByRole("button", { name: "Queue" }).click()
    await page.locator(".queue li").waitFor()
    await page.keyboard.press("Escape")
    await page.locator(".banner", { hasText: "This also ends 1 waiting prompt." }).waitFor()
    await page.keyboard.press("Escape")
    await page.locator(".end", { hasText: "Stopped" }).waitFor()
    await page.locator(".queue").waitFor({ state: "detached" })
    await finish()
  })

  test("subagents are cards, rows and steps of a way, and the parent keeps its place", async () => {
    const id = await prompt(baton, "twins", "hello", "Has twins")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    const cards = page.locator(".child")
    await cards.nth(1).waitFor()
    await page.locator('.child[data-state="needs"]', { hasText: "1 request" }).waitFor()
    await page.locator(".family", { hasText: "2 subagents" }).waitFor()
    await page.getByRole("button", { name: "2 subagents" }).click()
    assert.equal(await page.locator(".children .row").count(), 2)
    await cards.first().click()
    await page.locator(".crumbs", { hasText: "Has twins" }).waitFor()
    // Both began at the same time, so either may be the first.
    await page.locator(".siblings", { hasText: /[12] of 2/ }).waitFor()
    const isFirst = (await page.locator(".siblings").innerText()).includes("1 of 2")
    await page.getByRole("link", { name: isFirst ? "Next subagent" : "Previous subagent" }).click()
    await page.locator(".siblings", { hasText: isFirst ? "2 of 2" : "1 of 2" }).waitFor()
    await armed(page)
    await page.keyboard.press("y")
    await page.locator(".crumbs a", { hasText: "Has twins" }).click()
    await page.locator(".assistant", { hasText: "Both are done." }).waitFor()
    await page.locator(".child .detail", { hasText: "Completed" }).nth(1).waitFor()
    await finish()
  })

  test("unread turns are marked until they are seen, also over a reload, and in all tabs", async () => {
    const other = await make("Is looked at")
    const one = await open(browser, baton, { fragment: `#/s/${other}` })
    const two = await open(browser, baton, { fragment: `#/s/${other}`, context: one.context })
    for (const { page } of [one, two]) await row(page, "Is looked at").waitFor()
    const title = "Ends unseen"
    await prompt(baton, "simple", "hello", title)
    await state(one.page, title, "done")
    await state(two.page, title, "done")
    await one.page.reload()
    await state(one.page, title, "done")
    await one.page.locator(".filters button", { hasText: "Unread" }).click()
    assert.equal(await row(one.page, "Is looked at").count(), 0)
    await row(one.page, title).click()
    await state(two.page, title, "idle")
    await one.page.locator(".filters button", { hasText: "All" }).click()
    await state(one.page, title, "idle")
    // A mark by hand holds until the session is opened again.
    await one.page.locator(".menu summary").click()
    await one.page.getByRole("button", { name: "Mark as unread" }).click()
    await state(one.page, title, "done")
    await state(two.page, title, "done")
    await row(one.page, "Is looked at").click()
    await row(one.page, title).click()
    await state(one.page, title, "idle")
    await one.page.locator(".menu summary").click()
    await one.page.getByRole("button", { name: "Rename…" }).click()
    await one.page.getByLabel("Title", { exact: true }).fill("Has a new title")
    await one.page.keyboard.press("Enter")
    await row(two.page, "Has a new title").waitFor()
    await one.finish()
    await two.finish()
  })

  test("each event causes one notification in all tabs, and none for the visible session", async () => {
    const context = await browser.newContext()
    await context.addInitScript(RECORD)
    const tape = new Tape()
    await context.exposeFunction("told", (notice) => tape.push(notice))
    const told = (title) => tape.until((notice) => notice.title === title, `the notification “${title}”`)
    await context.addInitScript(() => localStorage.setItem("baton notifications", JSON.stringify({ isOn: true, isOffered: true })))
    const other = await make("Is in front")
    const tabs = []
    for (let at = 0; at < 3; at++) tabs.push(await open(browser, baton, { fragment: `#/s/${other}`, context }))
    for (const { page } of tabs) await row(page, "Is in front").waitFor()
    await prompt(baton, "error_400", "hello", "Fails unseen")
    await state(tabs[0].page, "Fails unseen", "error")
    await told("Fails unseen")
    // A request of the visible session is on the screen; the last event shows that it caused no notification.
    const model = { providerID: "demo", modelID: "permission" }
    await json(baton, `/session/${other}/prompt_async`, { model, parts: [{ type: "text", text: "hello" }] })
    await tabs[0].page.locator(".request").waitFor()
    await prompt(baton, "permission", "hello", "Asks unseen")
    await told("Asks unseen")
    // The holder leaves: the next one goes on, and repeats nothing.
    const [first, ...rest] = tabs.splice(0)
    await first.finish()
    tabs.push(...rest)
    await prompt(baton, "error_400", "hello", "Fails later")
    await told("Fails later")
    assert.deepEqual(tape.events.map(({ title }) => title), ["Fails unseen", "Asks unseen", "Fails later"])
    assert.equal(new Set(tape.events.map(({ tag }) => tag)).size, 3)
    for (const { finish } of tabs) await finish()
    await context.close()
  })

  test("notifications are offered when a turn takes long, and not again", async () => {
    const { page, context, finish } = await open(browser, baton)
    await context.grantPermissions(["notifications"])
    await page.locator(".side .row").first().waitFor()
    const title = "Takes long"
    const id = await prompt(baton, "slow:10000@20", "hello", title)
    await state(page, title, "working")
    await page.clock.setSystemTime(Date.now() + 40_000)
    await page.getByRole("button", { name: "Not now" }).click()
    await page.reload()
    await row(page, title).waitFor()
    assert.equal(await page.locator(".offer").count(), 0)
    await json(baton, `/session/${id}/abort`, {})
    await finish()
  })
})
