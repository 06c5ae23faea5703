// The web page and a server that is killed, a network that fails, and a page that sleeps.

import assert from "node:assert/strict"
import { describe, test } from "node:test"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { age, needsSqlite } from "./support/database.mjs"
import { Flaky, dice } from "./support/flaky.mjs"
import { box, ends, still, textOf } from "./support/screen.mjs"
import { Baton, listing } from "./support/server.mjs"
import { eventually, listen } from "./support/stream.mjs"
import { within } from "./support/wait.mjs"

const SEED = Number(process.env.BATON_SEED ?? 1)
const ROUNDS = Number(process.env.BATON_ROUNDS ?? 20)
// Errors that the browser reports when a server cannot be reached.
const OUTAGE = /Failed to load resource|ERR_|502|fetching the script/

// More than the server keeps events, and the most that removing them takes.
const DAYS = 8
const TRIM_MS = 30_000

const payload = (event) => event.payload ?? event

// The cursor of the newest event.
async function newest(baton) {
  const { tape, close } = await listen(baton, { target: "/global/event" })
  await close()
  return payload(tape.events[0]).properties.cursor
}

// Waits until the log no longer has the events after a cursor.
async function trimmed(baton, cursor) {
  for (;;) {
    const { tape, close } = await listen(baton, { target: "/global/event", headers: { "last-event-id": String(cursor) } })
    const isState = (event) => ["server.resync", "server.ready"].includes(payload(event).type)
    const { type } = payload(await tape.until(isState, "the state of the stream"))
    await close()
    if (type === "server.resync") return
  }
}

// Waits until the server has nothing to do for a session, and the page knows it.
async function settle(page, baton, id) {
  await eventually(baton, async () => !(id in (await json(baton, "/session/status"))), "the end of the turn")
  await ends(page, /Completed|Interrupted|Stopped|Idle/)
}

// The messages that the page shows at the end of the transcript equal the newest ones of the server.
async function sameAsServer(page, baton, id, count) {
  const stored = (await json(baton, `/session/${id}/message`)).slice(-count).map(textOf).filter(Boolean)
  const newest = page.locator(".newest")
  if ((await newest.count()) > 0) await newest.click()
  const tail = (count) => {
    const text = (message) => [...message.querySelectorAll(".text, .markdown")].map((it) => it.innerText).join("\n").trim()
    return [...document.querySelectorAll(".message")].map(text).filter(Boolean).slice(-count)
  }
  const isSame = `(stored) => JSON.stringify((${tail})(stored.length)) === JSON.stringify(stored)`
  await page.waitForFunction(`(${isSame})(${JSON.stringify(stored)})`).catch(() => {})
  assert.deepEqual(await page.evaluate(tail, stored.length), stored)
}

describe("the web page and a server that is killed", needsBrowser(), () => {
  test(`${ROUNDS} crashes in the middle of a turn lose nothing and double nothing`, async (t) => {
    const baton = await serve({ env: listing("simple") })
    const browser = await launch()
    t.after(async () => {
      await browser.close()
      await baton.stop()
    })
    const roll = dice(SEED)
    const { page, finish, expect } = await open(browser, baton)
    expect(OUTAGE)
    const part = (text) => [{ type: "text", text }]
    for (let round = 1; round <= ROUNDS; round++) {
      const name = `seed ${SEED}, round ${round}`
      const { id } = await json(baton, "/session", { title: `Crash ${round}` })
      for (let at = 0; at < 8; at++) {
        await json(baton, `/session/${id}/message`, { noReply: true, parts: part(`${at}: ${"A line to read.\n".repeat(12)}`) })
      }
      await json(baton, `/session/${id}/prompt_async`, { model: { providerID: "demo", modelID: "slow:10000@5" }, parts: part("run") })
      await page.goto(`${baton.url}/#/s/${id}`)
      await page.locator(".assistant .markdown").waitFor()
      const words = 1 + roll.below(80)
      await page.waitForFunction((words) => document.querySelector(".assistant .markdown").innerText.split(" ").length >= words, words)
      const isQueued = roll.below(2) === 0
      if (isQueued) {
        const body = { model: { providerID: "demo", modelID: "simple" }, delivery: "queue", parts: part("queued before") }
        await json(baton, `/session/${id}/prompt_async`, body)
      }
      // The user reads further up.
      await page.locator(".transcript").hover()
      await page.mouse.wheel(0, -700)
      await page.locator(".newest").waitFor()
      const line = page.locator(".message", { hasText: "5: A line" })
      await line.waitFor()
      const top = () => line.evaluate((it) => it.getBoundingClientRect().top)
      await still(page)
      const before = await top()
      await page.getByLabel("Model").selectOption("demo/simple")
      await baton.kill()
      await box(page).fill("sent while it was down")
      await box(page).press("Enter")
      await box(page).fill(`draft ${round}`)
      await baton.begin()
      const hasArrived = async () => (await json(baton, `/session/${id}/message`)).some((message) => textOf(message) === "sent while it was down")
      await eventually(baton, hasArrived, "the prompt that was sent while the server was down")
      await settle(page, baton, id)
      assert.equal(await box(page).inputValue(), `draft ${round}`, name)
      assert.ok(Math.abs((await top()) - before) < 1, `${name}: the read line has moved from ${before} to ${await top()}`)
      const stored = await json(baton, `/session/${id}/message`)
      const texts = stored.filter(({ info }) => info.role === "user").map(textOf).slice(8)
      assert.deepEqual(texts.sort(), ["run", "sent while it was down", ...(isQueued ? ["queued before"] : [])].sort(), name)
      const answers = stored.filter(({ info }) => info.role === "assistant")
      assert.equal(answers.filter(({ info }) => info.error).length, 1, `${name}: one turn was interrupted`)
      assert.equal(answers.length, isQueued ? 3 : 2, `${name}: each prompt is answered once`)
      await sameAsServer(page, baton, id, stored.length - 8)
    }
    await finish()
  })
})

const TEXT = "Grüße, 漢字, 🎉 and plain words. "
const SCENARIOS = {
  unicode: { about: "streams characters of all lengths", steps: [[{ do: "text", text: TEXT, repeat: 60, delay_ms: 5 }, { do: "finish", reason: "stop" }]] },
}

describe("the web page and a bad network", needsBrowser(), () => {
  const setup = async (t, seed) => {
    const baton = await serve({ scenarios: SCENARIOS, env: listing("simple") })
    const flaky = await Flaky.start(baton.url, seed)
    const browser = await launch()
    t.after(async () => {
      await browser.close()
      await flaky.close()
      await baton.stop()
    })
    return { baton, flaky, browser }
  }

  for (let seed = SEED; seed < SEED + 3; seed++) {
    test(`the page ends in the state of the server (seed ${seed})`, async (t) => {
      const { baton, flaky, browser } = await setup(t, seed)
      const { id } = await json(baton, "/session", { title: "Through a bad network" })
      const { page, finish, expect } = await open(browser, flaky, { fragment: `#/s/${id}`, viewport: { width: 1280, height: 4_000 } })
      expect(OUTAGE)
      await page.locator(".row", { hasText: "Through a bad network" }).waitFor()
      flaky.isWild = true
      await json(baton, `/session/${id}/prompt_async`, { model: { providerID: "demo", modelID: "unicode" }, parts: [{ type: "text", text: "first" }] })
      const own = ["one", "two", "three"]
      for (const text of own) {
        await box(page).fill(text)
        await box(page).press("Enter")
      }
      await prompt(baton, "simple", "hello", "Meanwhile elsewhere")
      await page.locator(".assistant .markdown").first().waitFor()
      flaky.isWild = false
      const sent = async () => (await json(baton, `/session/${id}/message`)).filter(({ info }) => info.role === "user").map(textOf)
      await eventually(baton, async () => (await sent()).length === 4, "the prompts of the page")
      await settle(page, baton, id)
      assert.deepEqual(await sent(), ["first", ...own], "sent once, in order")
      const stored = await json(baton, `/session/${id}/message`)
      await sameAsServer(page, baton, id, stored.length)
      await page.locator('.row[data-state="done"], .row[data-state="idle"]', { hasText: "Meanwhile elsewhere" }).waitFor()
      assert.ok(flaky.counts.split > 0, "the proxy did its worst")
      await finish()
    })
  }

  test("a page that slept, and whose events are no longer in the log, is right again without losing its draft", async (t) => {
    const { baton, flaky, browser } = await setup(t, SEED)
    const id = await prompt(baton, "slow:10000@20", "hello", "Runs while the page sleeps")
    const { page, context, finish, expect } = await open(browser, flaky, { fragment: `#/s/${id}` })
    expect(OUTAGE)
    await page.locator(".assistant .markdown").waitFor()
    await box(page).fill("a draft before sleep")
    const debug = await context.newCDPSession(page)
    await debug.send("Page.setWebLifecycleState", { state: "frozen" })
    // The page resumes after an event that the server does not have.
    flaky.rewrite = (headers) => (headers["last-event-id"] ? { ...headers, "last-event-id": "999999999" } : headers)
    await json(baton, `/session/${id}/abort`, {})
    const asking = await prompt(baton, "permission", "hello", "Asks while the page sleeps")
    flaky.cut()
    await debug.send("Page.setWebLifecycleState", { state: "active" })
    await page.locator('.row[data-state="needs"]', { hasText: "Asks while the page sleeps" }).waitFor()
    flaky.rewrite = (headers) => headers
    await settle(page, baton, id)
    assert.equal(await page.getByRole("button", { name: "Stop", exact: true }).count(), 0)
    assert.equal(await box(page).inputValue(), "a draft before sleep")
    await json(baton, `/session/${asking}/abort`, {})
    await finish()
  })

  test("a page whose events the server has removed from the log reads everything again and keeps its draft", needsSqlite(), async (t) => {
    const baton = await serve()
    const browser = await launch()
    t.after(async () => {
      await browser.close()
      await baton.stop()
    })
    const make = async (title, server = baton) => (await json(server, "/session", { title })).id
    const say = (id, text, server = baton) => json(server, `/session/${id}/message`, { noReply: true, parts: [{ type: "text", text }] })
    const [id, deleted] = [await make("Is read again"), await make("Is deleted meanwhile")]
    await say(id, "before")
    const { page, finish, expect } = await open(browser, baton, { fragment: `#/s/${id}` })
    expect(OUTAGE)
    await page.locator(".message", { hasText: "before" }).waitFor()
    await page.locator(".row", { hasText: "Is deleted meanwhile" }).waitFor()
    await say(id, "live")
    await page.locator(".message", { hasText: "live" }).waitFor()
    await box(page).fill("a draft before the outage")
    const cursor = await newest(baton)
    await baton.shutdown()
    // On another port, so that the page comes back only after its events are gone.
    const away = await Baton.start({ world: baton.world })
    await say(id, "while the page was away", away)
    await make("Is made meanwhile", away)
    await away.fetch(`/session/${deleted}`, { method: "DELETE" })
    await away.shutdown()
    age(baton.world, DAYS)
    await away.begin()
    await within(TRIM_MS, trimmed(away, cursor), "the log to be trimmed")
    await away.shutdown()
    await baton.begin()
    await page.locator(".message", { hasText: "while the page was away" }).waitFor()
    await page.locator(".row", { hasText: "Is made meanwhile" }).waitFor()
    await page.locator(".row", { hasText: "Is deleted meanwhile" }).waitFor({ state: "detached" })
    assert.equal(await box(page).inputValue(), "a draft before the outage")
    await page.evaluate((id) => void (location.hash = `#/s/${id}?panel=events`), id)
    // The event belongs to no session.
    await page.locator(".events button[aria-pressed=true]").click()
    await page.getByRole("searchbox", { name: "Filter by type" }).fill("resync")
    await page.locator(".frame-row .type", { hasText: "server.resync" }).waitFor()
    await say(id, "and again")
    await page.locator(".message", { hasText: "again" }).waitFor()
    await sameAsServer(page, baton, id, 4)
    await finish()
  })
})
