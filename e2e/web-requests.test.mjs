// Requests in a browser: several at once, of deep subagents, rejected with a reason, expired, or answered elsewhere.

import assert from "node:assert/strict"
import { access, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { violations } from "./support/axe.mjs"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { World } from "./support/server.mjs"
import { signal } from "./support/wait.mjs"

const finish = { do: "finish", reason: "stop" }
const tools = { do: "finish", reason: "tool-calls" }
const bash = (command) => ({ do: "tool", name: "bash", input: { command } })
const task = (prompt) => ({ do: "tool", name: "task", input: { description: "Part", prompt, subagent_type: "general" } })
const answer = (text) => [{ do: "text", text }, finish]
const TEN = Array.from({ length: 10 }, (_, at) => at)
const one = (at) => [`one-${at}`, { about: "asks for one permission", steps: [[bash(`touch ten-${at}`), tools], answer("It has run.")] }]

const SCENARIOS = {
  ...Object.fromEntries(TEN.map(one)),
  // Commands of one agent run one after the other, those of several subagents at the same time.
  ten: {
    about: "gives ten subagents a task that needs a permission",
    steps: [[...TEN.map((at) => task(`[[scenario:one-${at}]] go`)), tools], answer("All ten have run.")],
  },
  deep: { about: "gives a task to a subagent, which gives it to another", steps: [[task("[[scenario:deeper]] go"), tools], answer("Deep is done.")] },
  deeper: { about: "the subagent of `deep`", steps: [[task("[[scenario:deepest]] go"), tools], answer("Deeper is done.")] },
  deepest: { about: "the subagent of `deeper`", steps: [[task("[[scenario:permission]] go"), tools], answer("Deepest is done.")] },
}

const CONFIG = { subagent_depth: 3, agent: { general: { permission: { task: "allow" } } } }

describe("requests in the web page", needsBrowser(), () => {
  let browser, baton
  const start = async (limits = {}) => {
    const world = await World.create()
    const file = path.join(world.root, "scenarios.json")
    await writeFile(file, JSON.stringify(SCENARIOS))
    await world.configure({ limits })
    return serve({ world, args: ["--scenario-file", file], env: { OPENCODE_CONFIG_CONTENT: JSON.stringify(CONFIG) } })
  }
  before(async () => {
    browser = await launch()
    baton = await start()
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  const armed = (page) => page.locator('.request[data-armed="true"]').waitFor()
  const ended = (page, reason = "Completed") => page.locator(".head .state", { hasText: reason }).waitFor()
  const row = (page, title) => page.locator(".row", { hasText: title })
  // A reply of another client.
  const reply = (from, { id }, value, client = "telegram") =>
    from.fetch(`/permission/${id}/reply`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-baton-client": client },
      body: JSON.stringify({ reply: value }),
    })
  const permissionOf = async (from, session) => (await json(from, "/permission")).find((it) => it.sessionID === session)

  test("ten at once are counted, shown before they are allowed together, and then run", async () => {
    const id = await prompt(baton, "ten", "hello", "Asks ten times")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.locator(".request .count", { hasText: "1 of 10" }).waitFor()
    await armed(page)
    assert.match(await page.locator(".request .deadline").innerText(), /^expires in \d/)
    await page.keyboard.press("y")
    await page.locator(".request .count", { hasText: "1 of 9" }).waitFor()
    await armed(page)
    await page.getByRole("button", { name: "Allow all 9 once" }).click()
    assert.equal(await page.locator(".sure .command").count(), 9, "every command is shown")
    assert.deepEqual(await violations(page), [])
    await armed(page)
    await page.getByRole("button", { name: "Allow all 9 once" }).click()
    await page.locator(".assistant", { hasText: "All ten have run." }).waitFor()
    await ended(page)
    for (const at of TEN) await access(path.join(baton.directory, `ten-${at}`))
    assert.equal(await page.locator(".ending").count(), 0, "own answers are not told")
    await finish()
  })

  test("a rejection with a reason tells the agent, and the turn goes on", async () => {
    const id = await prompt(baton, "permission", "hello", "Is corrected")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await armed(page)
    await page.getByRole("button", { name: "Reject and say why…" }).click()
    await page.getByLabel("Reason for the agent").fill("use make instead")
    await armed(page)
    await page.keyboard.press("Enter")
    await page.locator(".request").waitFor({ state: "detached" })
    await ended(page)
    const stored = await json(baton, `/session/${id}/message`)
    const errors = stored.flatMap(({ parts }) => parts.map(({ state }) => state?.error)).filter(Boolean)
    assert.match(errors.join(), /use make instead/)
    await finish()
  })

  test("buttons ignore clicks and keys for a moment after they have appeared or changed", async () => {
    const context = await browser.newContext()
    // Presses the key and the buttons in the moment in which the card appears.
    await context.addInitScript(() => {
      window.early = 0
      const press = () => {
        const card = document.querySelector(".request")
        if (!card || window.early > 0) return
        window.early++
        document.dispatchEvent(new KeyboardEvent("keydown", { key: "y", bubbles: true }))
        for (const button of card.querySelectorAll("button")) button.click()
      }
      new MutationObserver(press).observe(document, { childList: true, subtree: true })
    })
    const id = await prompt(baton, "permission", "hello", "Is clicked too early")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}`, context })
    await armed(page)
    assert.equal(await page.evaluate(() => window.early), 1)
    assert.ok(await permissionOf(baton, id), "the early clicks had no effect")
    // A double click on the first step must not be the answer to the second.
    await page.evaluate(() => {
      const press = (text) => [...document.querySelectorAll(".request button")].find((it) => it.textContent.includes(text)).click()
      press("Always…")
      press("Always allow")
    })
    await armed(page)
    assert.ok(await permissionOf(baton, id), "nor had the second half of a double click")
    await page.getByRole("button", { name: "Cancel" }).click()
    await armed(page)
    await page.getByRole("button", { name: "Allow once" }).click()
    await ended(page)
    await finish()
    await context.close()
  })

  test("an answer of another client closes the card and is told, also at the same moment", async () => {
    const id = await prompt(baton, "permission", "hello", "Is answered elsewhere")
    const { page, expect, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await armed(page)
    assert.equal((await reply(baton, await permissionOf(baton, id), "once")).status, 200)
    await page.locator(".request").waitFor({ state: "detached" })
    await page.locator(".ending", { hasText: "Allowed by telegram. bash touch demo-permission.txt" }).waitFor()
    await ended(page)
    // The click is on its way while another client answers.
    const other = await prompt(baton, "permission", "hello", "Is answered twice")
    await page.goto(`${baton.url}/#/s/${other}`)
    await armed(page)
    const [sent, proceed] = [signal(), signal()]
    await page.route("**/permission/*/reply", async (route) => {
      sent.resolve()
      await proceed.promise
      await route.continue()
    })
    await page.getByRole("button", { name: "Allow once" }).click()
    await sent.promise
    // The browser reports the call that came too late; the page does not.
    expect(/404/)
    assert.equal((await reply(baton, await permissionOf(baton, other), "reject")).status, 200)
    proceed.resolve()
    await page.locator(".ending", { hasText: "Rejected by telegram." }).waitFor()
    await page.locator(".request").waitFor({ state: "detached" })
    assert.equal(await page.locator(".request .error").count(), 0)
    await page.locator(".end", { hasText: "a request was refused" }).waitFor()
    await finish()
  })

  test("a request of a subagent at depth three marks its root while another session is open", async () => {
    const other = (await json(baton, "/session", { title: "Is open meanwhile" })).id
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${other}` })
    await row(page, "Is open meanwhile").waitFor()
    await page.locator(".composer textarea").fill("typing goes on")
    const id = await prompt(baton, "deep", "hello", "Is deep")
    await row(page, "Is deep").and(page.locator('[data-state="needs"]')).waitFor()
    assert.equal(await page.title(), "(1) Baton")
    assert.equal(await page.locator(".request").count(), 0, "the other session is not disturbed")
    assert.equal(await page.locator(".composer textarea").inputValue(), "typing goes on")
    const [request] = await json(baton, "/permission")
    assert.equal(request.rootID, id)
    const above = async (session) => (await json(baton, `/session/${session}`)).parentID
    assert.equal(await above(await above(await above(request.sessionID))), id, "three levels below the root")
    await row(page, "Is deep").click()
    await armed(page)
    await page.locator(".request header", { hasText: "general: " }).waitFor()
    await page.getByRole("button", { name: "Allow once" }).click()
    await page.locator(".assistant", { hasText: "Deep is done." }).waitFor()
    await ended(page)
    await finish()
  })

  test("a request outlives a restart of the server, in the page, too", async () => {
    const own = await start()
    const id = await prompt(own, "permission", "hello", "Waits over a restart")
    const { page, expect, finish } = await open(browser, own, { fragment: `#/s/${id}` })
    await armed(page)
    expect(/Failed to load resource|ERR_|network error/i)
    await own.kill()
    await own.begin()
    await page.locator(".end", { hasText: "Interrupted" }).waitFor()
    await armed(page)
    await page.getByRole("button", { name: "Allow once" }).click()
    await page.locator(".request").waitFor({ state: "detached" })
    assert.deepEqual(await json(own, "/permission"), [])
    await finish()
    await own.stop()
  })

  test("a request that expires is told until the note is closed", async () => {
    const own = await start({ request_seconds: 3, request_reply: "reject" })
    const { id } = await json(own, "/session", { title: "Expires" })
    const { page, finish } = await open(browser, own, { fragment: `#/s/${id}` })
    await row(page, "Expires").waitFor()
    const model = { providerID: "demo", modelID: "permission" }
    await json(own, `/session/${id}/prompt_async`, { model, parts: [{ type: "text", text: "hello" }] })
    const note = page.locator(".ending", { hasText: "No answer in time: rejected. bash touch demo-permission.txt" })
    await note.waitFor()
    assert.equal(await page.locator(".request").count(), 0)
    await ended(page)
    await note.getByRole("button", { name: "Close this note" }).click()
    await note.waitFor({ state: "detached" })
    await finish()
    await own.stop()
  })
})
