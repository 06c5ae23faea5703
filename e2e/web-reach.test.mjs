// The page beyond what it has loaded: links to old messages, families of sessions, marks of other devices, and a countdown
// that began before the page was opened.

import assert from "node:assert/strict"
import { writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { World, listing } from "./support/server.mjs"

const COUNT = 400
const tools = { do: "finish", reason: "tool-calls" }
const task = (prompt) => ({ do: "tool", name: "task", input: { description: "Part", prompt, subagent_type: "general" } })
const SCENARIOS = {
  trio: {
    about: "gives tasks to three subagents",
    steps: [
      [task("[[scenario:simple]] one"), task("[[scenario:simple]] two"), task("[[scenario:simple]] three"), tools],
      [{ do: "text", text: "All three are done." }, { do: "finish", reason: "stop" }],
    ],
  },
}

describe("the web page beyond what is loaded", needsBrowser(), () => {
  let browser, baton
  before(async () => {
    browser = await launch()
    const world = await World.create()
    const file = path.join(world.root, "scenarios.json")
    await writeFile(file, JSON.stringify(SCENARIOS))
    await world.configure({ continuation: { countdown_ms: 600_000 } })
    baton = await serve({ world, args: ["--scenario-file", file], env: listing("simple") })
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  const row = (page, title) => page.locator(".row", { hasText: title })
  const state = (page, title, value) => row(page, title).and(page.locator(`[data-state="${value}"]`)).waitFor()

  test("a link to an old message shows it without the messages between, which load when they are near", async () => {
    const { id } = await json(baton, "/session", { title: "Is long" })
    for (let at = 0; at < COUNT; at++) {
      await json(baton, `/session/${id}/message`, { noReply: true, parts: [{ type: "text", text: `Number ${at}: something to read.` }] })
    }
    const old = (await json(baton, `/session/${id}/message`))[60].info.id
    const { page, finish } = await open(browser, baton)
    // A session that is opened before the page is connected is read once more after that.
    await row(page, "Is long").waitFor()
    const reads = []
    page.on("request", (request) => request.url().includes(`${id}/message`) && reads.push(new URL(request.url()).search))
    await page.goto(`${baton.url}/#/s/${id}/m/${old}`)
    const visible = (text) =>
      page.waitForFunction((text) => {
        const box = document.querySelector(".transcript")?.getBoundingClientRect()
        return [...document.querySelectorAll(".message")].some((it) => {
          const { top, bottom } = it.getBoundingClientRect()
          return it.textContent.includes(text) && bottom > box.top && top < box.bottom
        })
      }, text)
    await visible("Number 60:")
    assert.equal(reads.filter((search) => search.includes("around=")).length, 1)
    assert.ok(reads.length <= 4, `a few pages of ${COUNT} messages: ${reads}`)
    // Reading on closes the gap, page by page, without a message missing.
    await page.waitForFunction(() => {
      const box = document.querySelector(".transcript")
      window.seen ??= new Set()
      for (const it of box.querySelectorAll(".message .text")) window.seen.add(Number(/\d+/.exec(it.textContent)[0]))
      const gap = box.querySelector('[data-row="gap"]')
      // A reader who waits at the gap reads on as soon as its next page is there.
      if (gap) gap.scrollIntoView({ block: "center" })
      else if (box.scrollTop + box.clientHeight < box.scrollHeight - 2) box.scrollTop += box.clientHeight * 0.8
      else return true
      return false
    })
    const seen = new Set(await page.evaluate(() => [...window.seen]))
    const missing = Array.from({ length: COUNT - 60 }, (_, at) => at + 60).filter((at) => !seen.has(at))
    assert.deepEqual(missing, [])
    // The end of the session follows again.
    await page.locator(".transcript").focus()
    await page.keyboard.press("End")
    await visible(`Number ${COUNT - 1}:`)
    await finish()
  })

  test("a link to a message that does not exist says so and shows the session", async () => {
    const id = await prompt(baton, "simple", "hello", "Has no such message")
    const { page, expect, finish } = await open(browser, baton, { fragment: `#/s/${id}/m/msg_000000000000aaaaaaaaaaaaaa` })
    expect(/404|400/)
    await page.locator(".missing", { hasText: "does not exist any more" }).waitFor()
    await page.locator(".message.user", { hasText: "hello" }).waitFor()
    await finish()
  })

  test("a family is read with one call, and its totals are in the head", async () => {
    const { page, finish } = await open(browser, baton)
    await page.locator(".side-head").waitFor()
    const id = await prompt(baton, "trio", "hello", "Has three")
    await state(page, "Has three", "done")
    const calls = []
    page.on("request", (request) => /\/(family|children)$/.test(new URL(request.url()).pathname) && calls.push(request.url()))
    await page.reload()
    // A session that is opened before the page is connected is read once more after that.
    await row(page, "Has three").waitFor()
    await page.goto(`${baton.url}/#/s/${id}`)
    await page.locator(".family", { hasText: "3 subagents" }).waitFor()
    assert.deepEqual(calls.map((url) => url.split("/").at(-1)), ["family"])
    const { tokens } = await json(baton, `/session/${id}/family`)
    assert.ok(tokens.output > 0)
    assert.match(await page.locator(".family").innerText(), new RegExp(`${tokens.output} out`))
    await page.locator(".child").first().click()
    await page.locator(".crumbs", { hasText: "Has three" }).waitFor()
    await page.locator(".siblings", { hasText: /[123] of 3/ }).waitFor()
    await finish()
  })

  test("a session that is seen, or marked as unread, on one device is so on another", async () => {
    // Contexts share nothing, as two devices.
    const one = await open(browser, baton)
    const two = await open(browser, baton)
    for (const { page } of [one, two]) await page.locator(".side-head").waitFor()
    const title = "Ends on two devices"
    await prompt(baton, "simple", "hello", title)
    await state(one.page, title, "done")
    await state(two.page, title, "done")
    await one.page.bringToFront()
    await row(one.page, title).click()
    await state(one.page, title, "idle")
    await state(two.page, title, "idle")
    await one.page.locator(".menu summary").click()
    await one.page.getByRole("button", { name: "Mark as unread" }).click()
    await state(two.page, title, "done")
    // A device that comes later knows it, too.
    const three = await open(browser, baton)
    await state(three.page, title, "done")
    await three.page.bringToFront()
    await row(three.page, title).click()
    await state(three.page, title, "idle")
    await state(two.page, title, "idle")
    for (const { finish } of [one, two, three]) await finish()
  })

  test("a page that is opened during a countdown shows it", async () => {
    const id = await prompt(baton, "todo", "hello", "Counts down")
    const first = await open(browser, baton, { fragment: `#/s/${id}` })
    const banner = (page) => page.locator('.banner[data-kind="countdown"]')
    await banner(first.page).waitFor()
    await first.page.reload()
    await banner(first.page).waitFor()
    const second = await open(browser, baton, { fragment: `#/s/${id}`, context: first.context })
    await banner(second.page).waitFor()
    assert.match(await banner(second.page).innerText(), /round 1, 2 open todos/)
    await second.page.getByRole("button", { name: "Do not continue" }).click()
    await banner(first.page).waitFor({ state: "detached" })
    await second.finish()
    await first.finish()
  })
})
