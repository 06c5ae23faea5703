// The web page in a browser: sessions, turns, requests, lost connections and several tabs.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { armed, ends, holds, row, state, still } from "./support/screen.mjs"
import { listing } from "./support/server.mjs"

// Presses a key in the moment in which a request appears, however slow the machine is.
const PRESS_EARLY = () => {
  const observer = new MutationObserver(() => {
    if (!document.querySelector(".request")) return
    observer.disconnect()
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "y", bubbles: true, cancelable: true }))
    window.isPressed = true
  })
  observer.observe(document, { childList: true, subtree: true })
}

describe("the web page", needsBrowser(), () => {
  let browser, baton
  before(async () => {
    browser = await launch()
    baton = await serve({ env: listing("simple") })
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  const idle = async (id) => {
    const response = await baton.fetch("/session/status")
    return !(id in (await response.json()))
  }

  test("a session is started, watched and ended in the page", async () => {
    const { page, finish } = await open(browser, baton)
    await page.getByRole("link", { name: "New session" }).first().click()
    await page.getByLabel("Model").selectOption("demo/simple")
    await page.getByLabel("Prompt").fill("Say hello")
    await page.getByLabel("Prompt").press("Enter")
    await page.locator(".assistant .markdown", { hasText: "Hello from the demo model. All is well." }).waitFor()
    await ends(page, /Completed/)
    assert.equal(await page.locator(".message.user").count(), 1, "the prompt is shown once")
    await page.getByLabel("Prompt").fill("And again")
    await page.getByRole("button", { name: "Send" }).click()
    await page.locator(".assistant .markdown").nth(1).waitFor()
    assert.equal(await page.locator(".message.user").count(), 2)
    await page.reload()
    await page.locator(".message.user").nth(1).waitFor()
    assert.equal(await page.locator(".message.user").count(), 2, "after a reload, too")
    await finish()
  })

  test("the list shows the state of sessions that other clients start", async () => {
    const { page, finish } = await open(browser, baton)
    await page.locator(".side-head").waitFor()
    await prompt(baton, "slow:60@50", "hello", "Watched from outside")
    await state(page, "Watched from outside", "working")
    await state(page, "Watched from outside", "done")
    await row(page, "Watched from outside").click()
    await state(page, "Watched from outside", "idle")
    await prompt(baton, "error_400", "hello", "Goes wrong")
    await state(page, "Goes wrong", "error")
    await finish()
  })

  test("a permission is answered with a key, and not by a key that was pressed too early", async () => {
    const id = await prompt(baton, "permission", "hello", "Asks for a permission")
    const context = await browser.newContext()
    await context.addInitScript(PRESS_EARLY)
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}`, context })
    const card = page.getByRole("group", { name: "Permission" })
    await page.waitForFunction(() => window.isPressed)
    await armed(page)
    assert.equal(await idle(id), false, "the early key was ignored")
    assert.match(await card.innerText(), /touch demo-permission\.txt && echo approved/)
    await page.getByRole("button", { name: "Always…" }).click()
    assert.match(await card.innerText(), /touch \*/, "the second step shows the patterns")
    await page.getByRole("button", { name: "Cancel" }).click()
    await page.locator('.request[data-armed="true"]').waitFor()
    await page.keyboard.press("y")
    await card.waitFor({ state: "detached" })
    await ends(page, /Completed/)
    await finish()
  })

  test("a request of a subagent is answered on its parent", async () => {
    const id = await prompt(baton, "subagent_permission", "hello", "Has a subagent")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await armed(page)
    await state(page, "Has a subagent", "needs")
    assert.equal(await page.title(), "(1) Baton")
    await page.getByRole("button", { name: "Allow once" }).click()
    await ends(page, /Completed/)
    await finish()
  })

  test("a question is answered, and dismissed", async () => {
    const id = await prompt(baton, "question", "hello", "Has a question")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await armed(page)
    await page.getByRole("button", { name: "Blue" }).click()
    await ends(page, /Completed/)
    const other = await prompt(baton, "question", "hello", "Has a question to dismiss")
    await row(page, "Has a question to dismiss").click()
    await armed(page)
    await page.getByRole("button", { name: "Dismiss" }).click()
    await page.locator(".request").waitFor({ state: "detached" })
    await state(page, "Has a question to dismiss", "idle")
    assert.equal(await idle(other), true)
    assert.deepEqual(await json(baton, "/question"), [])
    await finish()
  })

  test("stop ends a turn, and the page says why it ended", async () => {
    const id = await prompt(baton, "slow:10000@20", "hello", "Never ends")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.locator(".assistant .markdown").waitFor()
    await page.getByRole("button", { name: "Stop" }).click()
    await page.locator(".end", { hasText: "Stopped" }).waitFor()
    assert.equal(await page.getByRole("button", { name: "Stop" }).count(), 0)
    assert.equal(await idle(id), true)
    await finish()
  })

  test("a prompt during a turn waits or joins, and is answered once", async () => {
    const id = await prompt(baton, "slow:300@40", "one", "Has a queue")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.getByRole("button", { name: "Queue" }).waitFor()
    await page.getByLabel("Model").selectOption("demo/simple")
    await page.getByLabel("Prompt").fill("two")
    await page.getByRole("button", { name: "Queue" }).click()
    await page.locator(".queue li", { hasText: "two" }).waitFor()
    assert.equal(await page.locator(".message.user").count(), 1, "a waiting prompt is in one place")
    await page.locator(".assistant", { hasText: "All is well." }).waitFor()
    await ends(page, /Completed/)
    assert.equal(await page.locator(".message.user").count(), 2)
    assert.equal(await page.locator(".message.user .fate").count(), 0)
    await finish()
  })

  test("a long transcript is loaded in pages, and reading is not disturbed by new text", async () => {
    const { id } = await json(baton, "/session", { title: "Is long" })
    const part = { type: "text", text: "A line to read.\n".repeat(3) }
    for (let at = 0; at < 70; at++) {
      await json(baton, `/session/${id}/message`, { noReply: true, parts: [{ ...part, text: `${at}: ${part.text}` }] })
    }
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.locator(".message", { hasText: "69:" }).waitFor()
    const box = page.locator(".transcript")
    await page.waitForFunction(() => {
      const it = document.querySelector(".transcript")
      return it.scrollHeight - it.scrollTop - it.clientHeight < 48
    })
    assert.equal(await page.locator(".message", { hasText: /^0:/ }).count(), 0, "only the newest page")
    await box.hover()
    await page.mouse.wheel(0, -600)
    await page.getByRole("button", { name: "Newest" }).waitFor()
    const top = () => box.evaluate((it) => it.scrollTop)
    await still(page)
    const before = await top()
    await json(baton, `/session/${id}/message`, { noReply: true, parts: [{ type: "text", text: "the newest" }] })
    await page.locator(".message", { hasText: "the newest" }).waitFor({ state: "attached" })
    assert.equal(await top(), before, "the view stays")
    // Earlier messages appear above the line that is read, so the user scrolls on.
    const first = page.locator(".message", { hasText: /^0:/ })
    while ((await first.count()) === 0) await page.mouse.wheel(0, -2_000)
    await finish()
  })

  // Browsers have locks only for https and localhost; a page from another machine has to do without.
  for (const hasLocks of [true, false]) {
    test(`two tabs share one stream, ${hasLocks ? "with" : "without"} locks, and an answer in one reaches the other`, async () => {
      const id = await prompt(baton, "permission", "hello", "Seen twice")
      const context = await browser.newContext()
      if (!hasLocks) await context.addInitScript("Object.defineProperty(navigator, 'locks', { value: undefined })")
      const one = await open(browser, baton, { fragment: `#/s/${id}`, context })
      await armed(one.page)
      let streams = 0
      one.context.on("request", (request) => (streams += Number(request.url().includes("/global/event"))))
      const two = await open(browser, baton, { fragment: `#/s/${id}`, context: one.context })
      await armed(two.page)
      assert.equal(streams, 0, "the second tab opens no stream")
      await two.page.keyboard.press("y")
      await one.page.locator(".request").waitFor({ state: "detached" })
      await ends(one.page, /Completed/)
      await one.finish()
      // The holder is gone: the other tab takes over and sees the next turn.
      const title = `After the holder left ${hasLocks}`
      await prompt(baton, "slow:20@50", "hello", title)
      await state(two.page, title, "working")
      await state(two.page, title, "done")
      assert.equal(streams, 1)
      await two.finish()
    })
  }

  test("a session that does not exist is reported as missing", async () => {
    const { page, finish, expect } = await open(browser, baton, { fragment: "#/s/ses_none" })
    expect(/404|400/)
    await page.getByText("does not exist any more").waitFor()
    await finish()
  })
})

describe("the web page and a server that comes and goes", needsBrowser(), () => {
  test("a killed server: the page catches up, the turn is interrupted, the draft is kept", async (t) => {
    const baton = await serve()
    const browser = await launch()
    t.after(async () => {
      await browser.close()
      await baton.stop()
    })
    const id = await prompt(baton, "slow:10000@20", "hello", "Is interrupted")
    const { page, finish, expect } = await open(browser, baton, { fragment: `#/s/${id}` })
    // The browser may still be fetching the service worker when the server is killed.
    expect(/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|fetching the script/)
    await page.locator(".assistant .markdown").waitFor()
    await page.getByLabel("Prompt").fill("not sent yet")
    await baton.kill()
    await page.locator(".bar", { hasText: "Reconnecting" }).waitFor()
    await page.getByLabel("Prompt").press("Enter")
    await page.locator('.message[data-fate="held"]').waitFor()
    await page.getByLabel("Prompt").fill("a draft")
    await baton.begin()
    await page.locator(".bar").waitFor({ state: "detached" })
    // The waiting prompt is sent by itself, and answered after the interrupted turn.
    await page.locator('.message[data-fate="held"]').waitFor({ state: "detached" })
    await page.locator(".message.user", { hasText: "not sent yet" }).waitFor()
    assert.equal(await page.getByLabel("Prompt").inputValue(), "a draft")
    const stored = await json(baton, `/session/${id}/message`)
    const [answer] = stored.filter(({ info }) => info.role === "assistant")
    assert.equal(answer.info.error?.name, "MessageAbortedError", "the first turn was interrupted")
    // Text since the last checkpoint is lost with the process, so the answer may be empty.
    const text = answer.parts.filter((part) => part.type === "text").at(-1)?.text ?? ""
    const shown = (await page.locator(".assistant .markdown").allInnerTexts())[0] ?? ""
    if (text.trim()) assert.equal(shown.trim(), text.trim(), "the text is the server's")
    await page.reload()
    await page.locator(".message.user").nth(1).waitFor()
    await holds(page, "a draft")
    assert.equal(await page.locator(".message.user").count(), 2, "sent once")
    await finish()
  })

  test("with a password the page asks for it once", async (t) => {
    const baton = await serve({ env: { BATON_PASSWORD: "sesame" } })
    const browser = await launch()
    t.after(async () => {
      await browser.close()
      await baton.stop()
    })
    const { page, finish, expect } = await open(browser, baton)
    expect(/401/)
    await page.getByLabel("Password").fill("wrong")
    await page.getByRole("button", { name: "Sign in" }).click()
    await page.getByText("is wrong").waitFor()
    await page.getByLabel("Password").fill("sesame")
    await page.getByRole("button", { name: "Sign in" }).click()
    await page.locator(".side .empty", { hasText: "No session yet" }).waitFor()
    await page.reload()
    await page.locator(".side .empty", { hasText: "No session yet" }).waitFor()
    assert.equal(await page.getByLabel("Password").count(), 0)
    await finish()
  })
})
