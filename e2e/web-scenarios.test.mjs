// Every scenario of docs/scenarios.md that one server can play, in one page: a session works from busy to the one idle,
// without flicker, and its end has the reason that the server stored.
//
// The scenarios that end the server are in web-crash.test.mjs.

import assert from "node:assert/strict"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { acts, play } from "./support/acts.mjs"
import { json, launch, needsBrowser, open, serve } from "./support/browser.mjs"
import { ok, v2 } from "./support/sdk.mjs"
import { listen } from "./support/stream.mjs"
import { Tape, sessionOf } from "./support/tape.mjs"

const read = async (name) => JSON.parse(await readFile(new URL(name, import.meta.url), "utf8"))
const demo = await read("../crates/llm/src/demo/scenarios.json")
// How many turns each scenario has.
const turns = new Map((await read("scenarios.json")).map(({ scenario, baton }) => [scenario, baton]))

const rows = [
  ...["baton", ...Object.keys(demo)].map((scenario) => ({ scenario, run: play(scenario) })),
  ...Object.entries(acts).map(([scenario, act]) => ({ scenario, ...act })),
].filter((row) => !row.ends)

// Turns that wait long enough for every page to show them, and a state that each of them must have.
const LONG = { slow: "working", retry_429: "retrying", overloaded_529: "retrying", error_500_forever: "retrying" }

const ENDS = {
  completed: "Completed",
  aborted: "Stopped",
  error: "Ended with an error",
  blocked: "Stopped: a request was refused",
  budget: "Stopped: the budget is used up",
}
const ACTIVE = ["needs", "retrying", "working", "queued"]

// Records every state that a row of the list takes, by title.
const RECORD = () => {
  window.states = {}
  const look = () => {
    for (const row of document.querySelectorAll(".side .row")) {
      const title = row.querySelector(".title")?.textContent ?? ""
      const states = (window.states[title] ??= [])
      if (states.at(-1) !== row.dataset.state) states.push(row.dataset.state)
    }
  }
  const options = { subtree: true, childList: true, attributes: true, attributeFilter: ["data-state"], characterData: true }
  new MutationObserver(look).observe(document, options)
}

describe("every scenario in the page", { ...needsBrowser(), concurrency: rows.length }, () => {
  let browser, baton, tab, reading
  before(async () => {
    browser = await launch()
    baton = await serve()
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
    await context.addInitScript(RECORD)
    tab = await open(browser, baton, { context })
    await tab.page.locator(".side-head").waitFor()
    reading = Promise.resolve()
  })
  after(async () => {
    await tab.finish()
    await browser.close()
    await baton.stop()
  })

  const states = (title) => tab.page.evaluate((title) => window.states[title] ?? [], title)
  // The page shows one session at a time, so the scenarios take turns in looking at theirs.
  const reasonOf = (id) => {
    const shown = reading.then(async () => {
      await tab.page.goto(`${baton.url}/#/s/${id}`)
      await tab.page.locator(`.row[aria-current][href$="${id}"]`).waitFor()
      return tab.page.locator(".head .state").innerText()
    })
    reading = shown.catch(() => {})
    return shown
  }

  for (const row of rows) {
    const { scenario } = row
    test(scenario, { timeout: 240_000 }, async () => {
      const directory = path.join(baton.world.root, scenario)
      await mkdir(directory)
      await writeFile(path.join(directory, "README.md"), "# A project\n\nEnd of file.\n")
      const tape = new Tape()
      const stream = await listen(baton, { target: `/event?directory=${encodeURIComponent(directory)}`, tape })
      const sdk = v2({ url: baton.url, directory })
      const { id } = await ok(sdk.create({ title: scenario }))
      await row.run({ row, baton, sdk, tape, id })
      // Everything of the turn is in the page when a session that was made after it is.
      const fence = `fence of ${scenario}`
      await ok(sdk.create({ title: fence }))
      await tab.page.waitForFunction((fence) => window.states[fence] !== undefined, fence)
      const seen = await states(scenario)
      const begun = seen.filter((state, at) => ACTIVE.includes(state) && !ACTIVE.includes(seen[at - 1]))
      assert.ok(begun.length <= turns.get(scenario), `${scenario} flickers: ${seen}`)
      if (LONG[scenario]) {
        assert.equal(begun.length, 1, `${seen}`)
        assert.ok(seen.includes(LONG[scenario]), `${seen}`)
      }
      const ends = tape.events.filter((it) => it.type === "session.status" && sessionOf(it) === id && it.properties.status.type === "idle")
      const reason = ends.at(-1).properties.status.reason
      if (scenario !== "delete_busy") {
        assert.ok(["done", "error"].includes(seen.at(-1)), `${scenario} ends as ${seen}`)
        assert.equal(seen.at(-1) === "error", ["error", "blocked", "budget"].includes(reason), `${reason}: ${seen}`)
        assert.equal(await reasonOf(id), ENDS[reason], scenario)
        assert.equal((await json(baton, `/session/${id}/turn`)).end, reason)
      }
      stream.close()
    })
  }
})
