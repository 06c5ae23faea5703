// A long transcript in the web page: few elements on the screen, and a line that is read stays where it is.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { json, launch, needsBrowser, open, serve } from "./support/browser.mjs"
import { Flaky } from "./support/flaky.mjs"
import { box, ends, nodes, still } from "./support/screen.mjs"

// The most elements of a page that shows a long transcript.
const MAX_NODES = 4_000
const LONG = Number(process.env.BATON_MESSAGES ?? 300)

const SCENARIOS = {
  flood: { about: "streams two thousand deltas", steps: [[{ do: "text", text: "word ", repeat: 2_000 }, { do: "finish", reason: "stop" }]] },
}

const PICTURE =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

describe("a long transcript", needsBrowser(), () => {
  let browser, baton
  before(async () => {
    browser = await launch()
    baton = await serve({ scenarios: SCENARIOS })
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  const add = (id, ...parts) => json(baton, `/session/${id}/message`, { noReply: true, parts })
  const text = (text) => ({ type: "text", text })
  // Messages of different heights.
  const fill = async (id, count) => {
    for (let at = 0; at < count; at++) await add(id, text(`${at}: ${"A line to read.\n".repeat(1 + ((at * 7) % 11))}`))
  }
  // The first message that begins in the visible part, and its distance from the upper edge.
  const reading = (page) =>
    page.evaluate(() => {
      const box = document.querySelector(".transcript").getBoundingClientRect()
      const rows = [...document.querySelectorAll(".slot")].map((slot) => [slot, slot.querySelector(".message")])
      const [slot, message] = rows.find(([, message]) => message && message.getBoundingClientRect().top >= box.top)
      return { key: slot.dataset.row, top: message.getBoundingClientRect().top - box.top, text: message.innerText.slice(0, 20) }
    })
  const topOf = (page, key) =>
    page.evaluate((key) => {
      const box = document.querySelector(".transcript").getBoundingClientRect()
      return document.querySelector(`.slot[data-row="${key}"] .message`).getBoundingClientRect().top - box.top
    }, key)
  const scroll = async (page, by) => {
    await page.locator(".transcript").hover({ position: { x: 20, y: 20 } })
    await page.mouse.wheel(0, by)
    await still(page)
  }

  test("the line that is read does not move, whatever arrives", async () => {
    const { id } = await json(baton, "/session", { title: "Is read" })
    await fill(id, 90)
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.locator(".message", { hasText: /^89:/ }).waitFor()
    // The wheel in small steps, as a hand would.
    for (let at = 0; at < 6; at++) await scroll(page, -600)
    const { key, top, text: line } = await reading(page)
    const stays = async (name) => {
      await still(page)
      const now = await topOf(page, key)
      assert.ok(Math.abs(now - top) < 1, `${name}: "${line}" has moved from ${top} to ${now}`)
    }
    await json(baton, `/session/${id}/prompt_async`, { model: { providerID: "demo", modelID: "flood" }, parts: [text("go")] })
    await ends(page, /Completed/)
    await stays("two thousand deltas")
    await add(id, text("with a picture"), { type: "file", mime: "image/png", filename: "dot.png", url: PICTURE })
    await page.locator(".newest", { hasText: /new/ }).waitFor()
    await stays("a picture")
    const rows = () => page.evaluate(() => document.querySelector(".transcript").scrollHeight)
    const before = await rows()
    await page.evaluate(() => document.querySelector(".older")?.click())
    await page.waitForFunction((before) => document.querySelector(".transcript").scrollHeight !== before || !document.querySelector(".older"), before)
    await stays("a page of history")
    // Everything above becomes higher and lower.
    await page.evaluate(() => {
      const edge = document.querySelector(".transcript").getBoundingClientRect().top
      const above = [...document.querySelectorAll(".message")].filter((it) => it.getBoundingClientRect().bottom < edge)
      for (const message of above) message.style.setProperty("padding-bottom", "137px")
    })
    await stays("rows above that grow")
    await page.evaluate(() => document.querySelectorAll(".message").forEach((it) => it.style.removeProperty("padding-bottom")))
    await stays("rows above that shrink")
    await page.setViewportSize({ width: 1280, height: 500 })
    await stays("a lower window")
    await page.setViewportSize({ width: 700, height: 700 })
    await page.setViewportSize({ width: 1280, height: 800 })
    await stays("a narrow window and back")
    await finish()
  })

  test("the place is kept over another session and over a reload, and new messages are marked", async () => {
    const { id } = await json(baton, "/session", { title: "Has a place" })
    const { id: other } = await json(baton, "/session", { title: "Is another" })
    await fill(id, 120)
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.locator(".message", { hasText: /^119:/ }).waitFor()
    // Beyond the newest page.
    while ((await page.locator(".message", { hasText: /^45:/ }).count()) === 0) await scroll(page, -1_500)
    const { key, top } = await reading(page)
    await page.locator(".row", { hasText: "Is another" }).click()
    await page.locator(".session[aria-label='Is another']").waitFor()
    await page.locator(".row", { hasText: "Has a place" }).click()
    await page.locator(`.slot[data-row="${key}"]`).waitFor()
    await still(page)
    assert.ok(Math.abs((await topOf(page, key)) - top) < 1, "after another session")
    await page.reload()
    await page.locator(`.slot[data-row="${key}"]`).waitFor()
    await still(page)
    assert.ok(Math.abs((await topOf(page, key)) - top) < 1, "after a reload")
    await page.getByRole("button", { name: "Newest" }).click()
    await page.locator(".message", { hasText: /^119:/ }).waitFor()
    await page.locator(".row", { hasText: "Is another" }).click()
    await page.locator(".session[aria-label='Is another']").waitFor()
    await add(id, text("since the last visit"))
    await page.locator(".row", { hasText: "Has a place" }).click()
    await page.locator(".slot", { hasText: "New since your last visit" }).locator(".message", { hasText: "since the last visit" }).waitFor()
    assert.ok(other)
    await finish()
  })

  test("a place far from the end is read at once, without the pages between", async () => {
    const { id } = await json(baton, "/session", { title: "Has a far place" })
    await fill(id, LONG)
    const messages = await json(baton, `/session/${id}/message`)
    const middle = messages[Math.floor(messages.length / 3)].info.id
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}/m/${middle}` })
    await page.locator(`.slot[data-row="${middle}"]`).waitFor()
    await still(page)
    const { key, top } = await reading(page)
    await page.evaluate((id) => void (location.hash = `#/s/${id}`), id)
    const reads = []
    page.on("request", (request) => {
      const url = new URL(request.url())
      if (url.pathname === `/session/${id}/message`) reads.push([...url.searchParams.keys()].find((name) => name !== "limit") ?? "newest")
    })
    await page.reload()
    await page.locator(`.slot[data-row="${key}"]`).waitFor()
    await still(page)
    assert.ok(Math.abs((await topOf(page, key)) - top) < 1, "the line is where it was")
    assert.deepEqual([...new Set(reads)], ["newest", "around"])
    await finish()
  })

  test("a new epoch moves and drops nothing for a user who reads far up", async (t) => {
    const { id } = await json(baton, "/session", { title: "Is read again" })
    await fill(id, LONG)
    const messages = await json(baton, `/session/${id}/message`)
    const at = Math.floor(messages.length / 3)
    const flaky = await Flaky.start(baton.url, 1)
    t.after(() => flaky.close())
    const { page, finish, expect } = await open(browser, { url: flaky.url }, { fragment: `#/s/${id}/m/${messages[at].info.id}` })
    expect(/Failed to load resource|ERR_/)
    await page.locator(`.slot[data-row="${messages[at].info.id}"]`).waitFor()
    await page.locator(".newest").waitFor()
    // The user reads on from the message that the link names.
    for (let step = 0; step < 4; step++) await scroll(page, 500)
    await box(page).fill("a draft")
    const { key, top, text: line } = await reading(page)
    const stays = async (name) => {
      await still(page)
      const now = await topOf(page, key)
      assert.ok(Math.abs(now - top) < 1, `${name}: "${line}" has moved from ${top} to ${now}`)
    }
    // Every position that the line has on the screen until the page has read everything again.
    const watch = () =>
      page.evaluate((key) => {
        window.tops = []
        const look = () => {
          const row = document.querySelector(`.slot[data-row="${key}"] .message`)
          window.tops.push(row ? row.getBoundingClientRect().top : null)
          requestAnimationFrame(look)
        }
        look()
      }, key)
    await watch()
    for (const round of [1, 2]) {
      // The log does not have this cursor, so the server answers with a resync.
      flaky.rewrite = (headers) => (headers["last-event-id"] ? { ...headers, "last-event-id": "999999999" } : headers)
      const isRead = page.waitForResponse((response) => response.url().includes("around="))
      flaky.isDown = true
      flaky.cut()
      await add(id, text(`while the page was away ${round}`))
      flaky.isDown = false
      await page.evaluate(() => dispatchEvent(new Event("online")))
      await isRead
      flaky.rewrite = (headers) => headers
      await page.locator(".row", { hasText: "Is read again" }).waitFor()
      await stays(`resync ${round}`)
    }
    const tops = await page.evaluate(() => [...new Set(window.tops.map((it) => it && Math.round(it)))])
    assert.equal(tops.length, 1, `the line was at ${tops}`)
    assert.equal(await box(page).inputValue(), "a draft")
    assert.equal(await page.evaluate(() => document.activeElement.matches(".composer textarea")), true)
    await page.locator(".newest").click()
    await page.locator(".message", { hasText: "while the page was away 2" }).waitFor()
    await finish()
  })

  test(`${LONG} messages: the page stays small, and reaches the first one`, async () => {
    const { id } = await json(baton, "/session", { title: "Is very long" })
    await fill(id, LONG)
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.locator(".message", { hasText: new RegExp(`^${LONG - 1}:`) }).waitFor()
    const first = page.locator(".message", { hasText: /^0:/ })
    let most = 0
    while ((await first.count()) === 0) {
      await page.locator(".transcript").evaluate((it) => (it.scrollTop = 0))
      await still(page)
      most = Math.max(most, await nodes(page))
    }
    assert.ok(most < MAX_NODES, `${most} elements`)
    await page.getByRole("button", { name: /Newest|new/ }).click()
    await page.locator(".message", { hasText: new RegExp(`^${LONG - 1}:`) }).waitFor()
    assert.ok((await nodes(page)) < MAX_NODES)
    await finish()
  })

  test("a fold that was opened stays open when it comes back to the screen", async () => {
    const { id } = await json(baton, "/session", { title: "Has folds" })
    await json(baton, `/session/${id}/prompt_async`, { model: { providerID: "demo", modelID: "reasoning" }, parts: [text("think")] })
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await ends(page)
    await page.locator("details.reasoning summary").click()
    // A row with the focus stays on the screen.
    await box(page).focus()
    await fill(id, 40)
    await page.locator(".message", { hasText: /^39:/ }).waitFor()
    await page.locator("details.reasoning").waitFor({ state: "detached" })
    while ((await page.locator("details.reasoning").count()) === 0) await scroll(page, -3_000)
    assert.equal(await page.locator("details.reasoning").evaluate((it) => it.open), true)
    await finish()
  })
})
