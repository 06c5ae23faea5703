// Budgets of the page that do not depend on the speed of the machine. `cargo xtask bench web` measures the others.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { ends, nodes, state, still } from "./support/screen.mjs"

const MAX_NODES = 4_000
const KIB = 1024
// The most bytes of the first load, compressed.
const FIRST_LOAD = { script: 90 * KIB, stylesheet: 16 * KIB, all: 115 * KIB }
const STREAMS = 10
// Twice this and a half is less than the silence after which the page connects again.
const IDLE_SECONDS = 5

const finish = { do: "finish", reason: "stop" }
const SCENARIOS = {
  flood: { about: "streams two thousand deltas", steps: [[{ do: "text", text: "word ", repeat: 2_000 }, finish]] },
  stream: { about: "streams a hundred words", steps: [[{ do: "text", text: "word ", repeat: 100, delay_ms: 5 }, finish]] },
  long: { about: "writes 200 KB", steps: [[{ do: "text", text: `${"word ".repeat(100)}\n\n`, words: 50, repeat: 400 }, finish]] },
}

// Counts callbacks of frames and timers.
const COUNT = () => {
  window.counts = { frames: 0, timers: 0 }
  const counted = (kind, run) => (typeof run === "function" ? (...args) => (window.counts[kind]++, run(...args)) : run)
  for (const [name, kind] of Object.entries({ requestAnimationFrame: "frames", setTimeout: "timers", setInterval: "timers" })) {
    const original = window[name].bind(window)
    window[name] = (run, ...args) => original(counted(kind, run), ...args)
  }
}

// Adds up layout shifts of text that the user reads.
const WATCH = () => {
  window.shift = 0
  new PerformanceObserver((list) => {
    for (const { value, sources } of list.getEntries()) {
      if (sources.some(({ node }) => node?.parentElement?.closest(".transcript"))) window.shift += value
    }
  }).observe({ type: "layout-shift", buffered: true })
}

// Adds up all layout shifts, and names the elements that moved.
const WATCH_ALL = () => {
  // The offer of notifications after a long turn takes room on purpose.
  localStorage.setItem("baton notifications", JSON.stringify({ isOffered: true }))
  window.shifts = []
  const name = (node) => (node?.nodeType === Node.TEXT_NODE ? node.parentElement : node)?.outerHTML?.slice(0, 80)
  const place = ({ x, y, width, height }) => `${x},${y} ${width}×${height}`
  const moved = ({ node, previousRect, currentRect }) => `${place(previousRect)} → ${place(currentRect)} ${name(node)}`
  new PerformanceObserver((list) => {
    for (const { value, sources } of list.getEntries()) window.shifts.push([value, ...sources.map(moved)].join("\n"))
  }).observe({ type: "layout-shift", buffered: true })
}

describe("budgets of the page", needsBrowser(), () => {
  let browser, baton
  before(async () => {
    browser = await launch()
    baton = await serve({ scenarios: SCENARIOS })
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  // A page built by hand is delivered without compression.
  test("the first load is small", { skip: Boolean(process.env.BATON_WEB_DIR) }, async () => {
    const context = await browser.newContext()
    const loaded = { script: 0, stylesheet: 0, all: 0 }
    const sizes = []
    context.on("requestfinished", (request) => {
      const kind = request.resourceType()
      if (["fetch", "xhr", "eventsource"].includes(kind)) return
      sizes.push(request.sizes().then(({ responseBodySize }) => {
        loaded.all += responseBodySize
        if (kind in loaded) loaded[kind] += responseBodySize
      }))
    })
    const { page, finish } = await open(browser, baton, { context })
    await page.locator(".side").waitFor()
    await Promise.all(sizes)
    assert.ok(loaded.script > 0 && loaded.stylesheet > 0)
    for (const [kind, most] of Object.entries(FIRST_LOAD)) assert.ok(loaded[kind] <= most, `${kind}: ${loaded[kind]} bytes`)
    await finish()
    await context.close()
  })

  test("an idle page draws no frame and runs one timer a second; a hidden one runs none", async () => {
    const id = await prompt(baton, "simple", "hello", "Is idle")
    const context = await browser.newContext()
    await context.clock.install()
    await context.addInitScript(COUNT)
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}`, context })
    await ends(page)
    await state(page, "Is idle", "idle")
    const counts = async () => {
      // Timers of the last turn end first.
      await page.clock.runFor(IDLE_SECONDS * 500)
      await page.evaluate(() => Object.assign(window.counts, { frames: 0, timers: 0 }))
      await page.clock.runFor(IDLE_SECONDS * 1_000)
      return page.evaluate(() => window.counts)
    }
    await page.clock.pauseAt(Date.now() + 1_000)
    const visible = await counts()
    assert.equal(visible.frames, 0)
    assert.ok(visible.timers <= IDLE_SECONDS, `${visible.timers} timers in ${IDLE_SECONDS} s`)
    await page.evaluate(() => {
      Object.defineProperty(document, "hidden", { value: true })
      document.dispatchEvent(new Event("visibilitychange"))
    })
    assert.deepEqual(await counts(), { frames: 0, timers: 0 })
    await finish()
    await context.close()
  })

  test("text that is read does not shift while two thousand deltas arrive", async () => {
    const { id } = await json(baton, "/session", { title: "Is read" })
    const text = (text) => [{ type: "text", text }]
    for (let at = 0; at < 30; at++) {
      await json(baton, `/session/${id}/message`, { noReply: true, parts: text(`${at}: ${"A line to read.\n".repeat(1 + (at % 7))}`) })
    }
    const context = await browser.newContext()
    await context.addInitScript(WATCH)
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}`, context })
    await page.locator(".message", { hasText: /^29:/ }).waitFor()
    await page.locator(".transcript").hover()
    await page.mouse.wheel(0, -900)
    await page.locator(".newest").waitFor()
    await still(page)
    await page.evaluate(() => (window.shift = 0))
    await json(baton, `/session/${id}/prompt_async`, { model: { providerID: "demo", modelID: "flood" }, parts: text("go") })
    await ends(page, /Completed/)
    await still(page)
    assert.equal(await page.evaluate(() => window.shift), 0)
    await finish()
    await context.close()
  })

  test("nothing on the page shifts while ten sessions stream", async () => {
    const sessions = []
    for (let at = 0; at < STREAMS; at++) sessions.push((await json(baton, "/session", { title: `Streams ${at}` })).id)
    const [shown] = sessions
    const say = (id) => json(baton, `/session/${id}/prompt_async`, { model: { providerID: "demo", modelID: "stream" }, parts: [{ type: "text", text: "go" }] })
    await say(shown)
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
    await context.addInitScript(WATCH_ALL)
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${shown}`, context })
    await page.locator(".end .facts").waitFor()
    for (let at = 1; at < STREAMS; at++) await state(page, `Streams ${at}`, "idle")
    await still(page)
    await page.evaluate(() => (window.shifts = []))
    await Promise.all(sessions.map(say))
    for (let at = 1; at < STREAMS; at++) await state(page, `Streams ${at}`, "done")
    await page.waitForFunction(() => document.querySelectorAll(".message.assistant .markdown").length === 2)
    await page.locator(".end .facts").waitFor()
    await still(page)
    assert.deepEqual(await page.evaluate(() => window.shifts), [])
    await finish()
    await context.close()
  })

  test("a long answer stays within the number of elements", async () => {
    const id = await prompt(baton, "long", "hello", "Writes much")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await ends(page)
    await page.waitForFunction(() => document.querySelector(".assistant .markdown")?.textContent.length >= 200_000)
    assert.ok((await nodes(page)) < MAX_NODES, `${await nodes(page)} elements`)
    await finish()
  })
})
