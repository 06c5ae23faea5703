// Several clients of one session: waiting prompts, requests and tabs.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { accessible } from "./support/axe.mjs"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { armed, holds, reads, textOf } from "./support/screen.mjs"
import { listing } from "./support/server.mjs"
import { eventually } from "./support/stream.mjs"

const finishes = (reason) => ({ do: "finish", reason })
const task = (prompt) => ({ do: "tool", name: "task", input: { description: "Part", prompt, subagent_type: "general" } })

const SCENARIOS = {
  parent: { about: "has a child", steps: [[task("[[scenario:permission]] deep"), finishes("tool-calls")], [{ do: "text", text: "The end." }, finishes("stop")]] },
}

describe("several clients of one session", needsBrowser(), () => {
  let browser, baton
  before(async () => {
    browser = await launch()
    baton = await serve({ scenarios: SCENARIOS, env: listing("simple") })
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  const queue = (page) => page.locator(".queue li .text").allInnerTexts()
  const becomes = (page, expected) => reads(page, ".queue li .text", expected)
  const begin = async (title, ...texts) => {
    const id = await prompt(baton, "slow:10000@20", "run", title)
    for (const text of texts) {
      const body = { model: { providerID: "demo", modelID: "simple" }, delivery: "queue", parts: [{ type: "text", text }] }
      await json(baton, `/session/${id}/prompt_async`, body)
    }
    return id
  }
  const action = (page, text, name) => page.locator(".queue li", { hasText: text }).getByRole("button", { name }).click()

  test("waiting prompts are edited, moved, steered and withdrawn, and every client sees it", async () => {
    const id = await begin("Has a queue", "one", "two", "three", "four")
    const first = await open(browser, baton, { fragment: `#/s/${id}` })
    const second = await open(browser, baton, { fragment: `#/s/${id}` })
    for (const { page } of [first, second]) await becomes(page, ["one", "two", "three", "four"])
    await action(first.page, "three", "Move up")
    for (const { page } of [first, second]) await becomes(page, ["one", "three", "two", "four"])
    await action(second.page, "one", "Edit")
    await second.page.getByLabel("New text").fill("one, edited")
    await second.page.getByLabel("New text").press("Enter")
    for (const { page } of [first, second]) await becomes(page, ["one, edited", "three", "two", "four"])
    await action(first.page, "two", "Withdraw")
    for (const { page } of [first, second]) await becomes(page, ["one, edited", "three", "four"])
    await holds(first.page, "two")
    await action(first.page, "four", "Steer now")
    await second.page.locator('.queue li[data-delivery="steer"]', { hasText: "four" }).waitFor()
    await second.page.reload()
    await becomes(second.page, await queue(first.page))
    await json(baton, `/session/${id}/abort`, {})
    for (const { page } of [first, second]) await page.locator(".queue").waitFor({ state: "detached" })
    await first.finish()
    await second.finish()
  })

  test("two clients change the queue at once: nothing is answered twice, lost or doubled", async () => {
    const texts = ["a", "b", "c", "d", "e"].map((name) => `prompt ${name}`)
    const id = await begin("Has two masters", ...texts)
    const one = await open(browser, baton, { fragment: `#/s/${id}` })
    const two = await open(browser, baton, { fragment: `#/s/${id}` })
    for (const { page, expect } of [one, two]) {
      expect(/404|409/)
      await becomes(page, texts)
    }
    // Both pages call the server before either has heard of the other's change.
    const press = (page, ...presses) =>
      page.evaluate((presses) => {
        for (const [text, name] of presses) {
          const item = [...document.querySelectorAll(".queue li")].find((it) => it.innerText.includes(text))
          const isNamed = (button) => (button.ariaLabel ?? button.innerText) === name
          ;[...item.querySelectorAll("button")].find(isNamed).click()
        }
      }, presses)
    await Promise.all([
      press(one.page, ["prompt b", "Withdraw"], ["prompt d", "Move up"]),
      press(two.page, ["prompt b", "Withdraw"], ["prompt e", "Move up"]),
    ])
    for (const { page } of [one, two]) await page.locator(".queue li", { hasText: "prompt b" }).waitFor({ state: "detached" })
    const stored = async () => (await json(baton, `/session/${id}/queue`)).map(textOf)
    for (const { page } of [one, two]) await becomes(page, await stored())
    assert.deepEqual((await stored()).sort(), texts.filter((text) => text !== "prompt b").sort())
    await json(baton, `/session/${id}/abort`, {})
    await one.finish()
    await two.finish()
  })

  test("requests of many sessions and of a child are listed, and an answer elsewhere closes them", async () => {
    const front = await prompt(baton, "simple", "hello", "Is in front of requests")
    const { page, finish, expect } = await open(browser, baton, { fragment: `#/s/${front}` })
    // The request that another client has answered.
    expect(/404/)
    await page.locator(".row", { hasText: "Is in front of requests" }).waitFor()
    await prompt(baton, "parent", "hello", "Has a child that asks")
    await page.locator('.row[data-state="needs"]', { hasText: "Has a child that asks" }).waitFor()
    for (let at = 0; at < 10; at++) await prompt(baton, "permission", "hello", `Asks ${at}`)
    await page.waitForFunction(() => document.title === "(11) Baton")
    const open10 = await json(baton, "/permission")
    assert.equal(open10.length, 11)
    await page.locator(".row", { hasText: "Asks 3" }).click()
    const card = page.locator('.request[data-armed="true"]')
    await card.waitFor()
    // Another client answers at the same moment.
    const mine = open10.find((request) => request.patterns && request.sessionID === page.url().split("/").at(-1))
    await Promise.all([json(baton, `/permission/${mine.id}/reply`, { reply: "once" }).catch(() => {}), page.keyboard.press("y")])
    await page.locator(".request").waitFor({ state: "detached" })
    assert.equal(await page.locator(".request .error").count(), 0)
    await Promise.all(
      open10.filter(({ id }) => id !== mine.id).map(({ id }) => json(baton, `/permission/${id}/reply`, { reply: "reject" })),
    )
    await page.waitForFunction(() => !document.title.startsWith("("))
    await finish()
  })

  test("a request waits over a restart of the server, and can be answered then", async () => {
    const id = await prompt(baton, "permission", "hello", "Asks over a restart")
    const { page, finish, expect } = await open(browser, baton, { fragment: `#/s/${id}` })
    expect(/Failed to load resource|ERR_/)
    await armed(page)
    await baton.kill()
    await baton.begin()
    await eventually(baton, async () => (await json(baton, "/permission")).length > 0, "the request after the restart")
    await armed(page)
    await page.keyboard.press("y")
    await page.locator(".request").waitFor({ state: "detached" })
    assert.deepEqual(await json(baton, "/permission"), [])
    await finish()
  })

  test("the tab with the stream crashes, and the others go on without a gap", async () => {
    const context = await browser.newContext()
    const tabs = []
    for (let at = 0; at < 4; at++) {
      tabs.push(await open(browser, baton, { context }))
      await tabs.at(-1).page.locator(".row").first().waitFor()
    }
    const crashed = tabs[0].page.waitForEvent("crash")
    tabs[0].page.goto("chrome://crash").catch(() => {})
    await crashed
    await prompt(baton, "simple", "hello", "After the crash of a tab")
    for (const { page } of tabs.slice(1)) await page.locator('.side .row[data-state="done"]', { hasText: "After the crash of a tab" }).waitFor()
    for (const { finish } of tabs.slice(1)) await finish()
    await context.close()
  })

  for (const colorScheme of ["light", "dark"]) {
    test(`axe finds nothing in live states (${colorScheme})`, async () => {
      const id = await begin(`Is looked at, ${colorScheme}`, "one", "two")
      const family = await prompt(baton, "parent", "hello", `Has a family, ${colorScheme}`)
      const retrying = await prompt(baton, "error_500_forever", "hello", `Retries, ${colorScheme}`)
      for (const viewport of [{ width: 1280, height: 800 }, { width: 390, height: 844 }]) {
        const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}`, colorScheme, viewport, reducedMotion: "reduce" })
        await page.locator(".queue li").nth(1).waitFor()
        await page.locator(".menu summary").click()
        await accessible(page, "queue and menu")
        await page.locator(".menu summary").click()
        await page.keyboard.press("Escape")
        await page.locator(".banner").waitFor()
        await accessible(page, "stop")
        await page.goto(`${baton.url}/#/s/${family}`)
        await page.locator(".child").waitFor()
        await armed(page)
        await accessible(page, "family")
        await page.locator(".child").click()
        await page.locator(".crumbs").waitFor()
        await accessible(page, "child")
        await page.goto(`${baton.url}/#/s/${retrying}`)
        await page.locator('.banner[data-kind="retry"], .end').first().waitFor()
        await accessible(page, "retry")
        await finish()
      }
      for (const session of [id, family, retrying]) await json(baton, `/session/${session}/abort`, {})
    })
  }
})
