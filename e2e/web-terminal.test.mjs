// Terminals of the page in a browser: what was written survives a reload, and what a program writes stays in its box.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { violations } from "./support/axe.mjs"
import { json, launch, needsBrowser, open, serve } from "./support/browser.mjs"
import { CONTROLS, PAYLOADS, RUN } from "./support/hostile.mjs"
import { write } from "./support/repository.mjs"

// Texts that one screen shows.
const A_SCREEN = 15

describe("the terminals of the page", needsBrowser(), () => {
  let browser, baton
  before(async () => {
    browser = await launch()
    baton = await serve({ env: { SHELL: "/bin/sh", PS1: "$ " } })
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  const screen = (page) => page.frameLocator(".terminal:not([hidden]) iframe")
  const line = (page, text) => screen(page).locator(".xterm-rows > div", { hasText: text }).first()
  const type = async (page, text) => {
    await screen(page).locator(".xterm-helper-textarea").focus()
    await page.keyboard.type(text)
    await page.keyboard.press("Enter")
  }
  const ready = (page) => page.locator(".terminal:not([hidden])[data-connected]").waitFor()

  // Opens the panel of a new session, with one new terminal.
  async function begin(options = {}) {
    const { id } = await json(baton, "/session", { title: "Has a terminal" })
    const opened = await open(browser, baton, { fragment: `#/s/${id}?panel=terminal`, ...options })
    await opened.page.getByRole("button", { name: "Open a terminal" }).first().click()
    await ready(opened.page)
    return { ...opened, id }
  }

  // Removes all terminals, so that the next test begins with none.
  async function clear() {
    for (const { id } of await json(baton, "/pty")) await baton.fetch(`/pty/${id}`, { method: "DELETE" })
  }

  test("a reload shows what was written, several tabs work, and an ended one tells its exit code", async () => {
    const { page, finish } = await begin()
    await type(page, "echo one-$((40 + 2))")
    await line(page, /^one-42$/).waitFor()
    await page.reload()
    await ready(page)
    await line(page, /^one-42$/).waitFor()
    await page.getByRole("button", { name: "Open a terminal" }).click()
    await page.getByRole("button", { name: "Terminal 2", exact: true }).waitFor()
    await ready(page)
    await type(page, "echo two-$((40 + 2))")
    await line(page, /^two-42$/).waitFor()
    await page.getByRole("button", { name: "Terminal 1", exact: true }).click()
    await line(page, /^one-42$/).waitFor()
    await type(page, "exit 7")
    await page.getByText("The program has ended with exit code 7.").waitFor()
    await page.getByRole("button", { name: "Close Terminal 1" }).click()
    await page.getByRole("button", { name: "Terminal 1", exact: true }).waitFor({ state: "detached" })
    await line(page, /^two-42$/).waitFor()
    await page.getByRole("button", { name: "Close Terminal 2" }).click()
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).click()
    await page.getByText("No terminal is open in this directory.").waitFor()
    assert.deepEqual(await json(baton, "/pty"), [])
    await finish()
  })

  test("the size of the panel becomes the size of the terminal", async () => {
    const { page, finish } = await begin()
    const columns = async () => {
      await type(page, "echo size-$(stty size)-end")
      const text = await line(page, /^size-\d+ \d+-end$/).innerText()
      await type(page, "clear")
      await line(page, "size-").waitFor({ state: "detached" })
      return Number(/ (\d+)-end/.exec(text)[1])
    }
    const resized = () => page.waitForResponse((response) => response.request().method() === "PUT" && response.ok())
    const wide = await columns()
    const changed = resized()
    await page.setViewportSize({ width: 1000, height: 500 })
    await changed
    assert.notEqual(await columns(), wide)
    await clear()
    await finish()
  })

  test("queries in old output are not answered again", async () => {
    const { page, finish } = await begin()
    // The program asks the terminal what it is; the shell must get the answer once, not after each reload.
    await type(page, "printf '\\033[c'; cat -v")
    await line(page, "[?1;2c").waitFor()
    await type(page, "before-the-reload")
    await line(page, /^\^\[\[\?1;2cbefore-the-reload$/).waitFor()
    const count = () => screen(page).locator(".xterm-rows > div", { hasText: "[?1;2c" }).count()
    const before = await count()
    await page.reload()
    await ready(page)
    await type(page, "after-the-reload")
    await line(page, /^after-the-reload$/).waitFor()
    assert.equal(await count(), before)
    await clear()
    await finish()
  })

  test("a paste of several lines asks first", async () => {
    const { page, finish } = await begin()
    const paste = async (text) => {
      await screen(page).locator(".xterm-helper-textarea").evaluate((box, text) => {
        const data = new DataTransfer()
        data.setData("text/plain", text)
        box.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }))
      }, text)
    }
    await paste("echo single")
    await line(page, "echo single").waitFor()
    await page.keyboard.press("Control+c")
    await paste("echo hidden\u202e-a\necho pasted-$((2 + 3))\n")
    const question = screen(page).getByRole("dialog", { name: "Paste several lines?" })
    await question.getByText("echo hidden⟨U+202E⟩-a").waitFor()
    await question.getByRole("button", { name: "Cancel" }).click()
    await question.waitFor({ state: "detached" })
    await paste("echo a-1\necho pasted-$((2 + 3))\n")
    await question.getByRole("button", { name: "Paste" }).click()
    await line(page, /pasted-5$/).waitFor()
    await clear()
    await finish()
  })

  test("Ctrl+C copies a selection, and stops the program without one", async () => {
    const { page, finish } = await begin()
    await type(page, "clear; echo copy-me; cat")
    await line(page, /^copy-me$/).waitFor()
    await screen(page).locator("#screen").evaluate(() => {
      window.addEventListener("copy", (event) => (window.copied = event.clipboardData.getData("text/plain")))
    })
    const box = await line(page, /^copy-me$/).boundingBox()
    await page.mouse.dblclick(box.x + 20, box.y + box.height / 2)
    await page.keyboard.press("Control+c")
    await screen(page).locator("html").evaluate(() => new Promise((done) => setTimeout(done)))
    assert.equal(await screen(page).locator("html").evaluate(() => window.copied), "copy-me")
    await type(page, "still-running")
    await screen(page).locator(".xterm-rows > div", { hasText: /^still-running$/ }).nth(1).waitFor()
    await page.keyboard.press("Control+c")
    await type(page, "echo stopped-$((1 + 1))")
    await line(page, /^stopped-2$/).waitFor()
    await clear()
    await finish()
  })

  test("links open in a new tab without a way back, and a text that names another host asks first", async () => {
    const { page, context, finish } = await begin()
    const { host } = new URL(baton.url)
    await type(page, `clear; echo go http://${host}/web/me.; printf '\\033]8;;http://${host}/web/me\\033\\\\https://example.com/\\033]8;;\\033\\\\\\n'`)
    const click = async (text, at) => {
      const box = await line(page, text).boundingBox()
      await page.mouse.move(box.x + at, box.y + box.height / 2)
      await screen(page).locator("#address", { hasText: `http://${host}/web/me` }).waitFor()
      await page.mouse.click(box.x + at, box.y + box.height / 2)
    }
    const popup = context.waitForEvent("page")
    await click(/^go http/, 60)
    const shown = await popup
    await shown.getByText("signedIn").waitFor()
    assert.equal(await shown.evaluate(() => window.opener), null)
    assert.equal(new URL(shown.url()).pathname, "/web/me", "the full stop is not part of the address")
    await shown.close()
    await click(/^https:\/\/example/, 60)
    const question = page.getByRole("dialog", { name: "Open 127.0.0.1?" })
    await question.getByText(`http://${host}/web/me`).waitFor()
    await question.getByRole("button", { name: "Cancel" }).click()
    await clear()
    await finish()
  })

  test(`${PAYLOADS.length + CONTROLS.length} hostile texts of a program stay text`, async () => {
    const { page, context, finish } = await begin()
    const opened = []
    context.on("page", (other) => opened.push(other.url()))
    const title = await page.title()
    const all = [...PAYLOADS, ...CONTROLS]
    for (let at = 0; at * A_SCREEN < all.length; at++) {
      const texts = all.slice(at * A_SCREEN, (at + 1) * A_SCREEN)
      await write(baton.world, `part${at}`, `${texts.join("\n")}\u001b[0m\n`)
      await type(page, `clear; cat part${at}; echo shown-$((${at}))-end`)
      await line(page, new RegExp(`^shown-${at}-end$`)).waitFor()
      const found = await screen(page).locator("html").evaluate(() => {
        const inside = [...document.querySelectorAll(".xterm-rows *")]
        const isBare = (it) => ["DIV", "SPAN"].includes(it.tagName) && [...it.attributes].every(({ name }) => ["class", "style"].includes(name))
        return { hacked: window.hacked ?? parent.hacked, other: inside.filter((it) => !isBare(it)).map((it) => it.outerHTML) }
      })
      assert.deepEqual(found, { hacked: undefined, other: [] })
    }
    await type(page, `clear; printf '\\033]8;;javascript:${RUN}\\033\\\\press\\033]8;;\\033\\\\\\n'; ls; echo after-$((1 + 1))`)
    await line(page, /^after-2$/).waitFor()
    assert.equal(await line(page, /^hacked$/).count(), 0, "a title was typed into the shell")
    const link = await line(page, /^press$/).boundingBox()
    await page.mouse.click(link.x + 10, link.y + link.height / 2)
    await type(page, "echo clicked-$((1 + 1))")
    await line(page, /^clicked-2$/).waitFor()
    assert.equal(await screen(page).locator("html").evaluate(() => window.hacked ?? parent.hacked), undefined)
    assert.equal(await screen(page).locator("#address").isVisible(), false)
    assert.deepEqual(opened, [])
    assert.equal(await page.title(), title)
    await clear()
    await finish()
  })

  test("only the frame allows inline styles, and only the page may frame it", async () => {
    const policy = async (target) => (await baton.fetch(target)).headers.get("content-security-policy")
    assert.match(await policy("/terminal.html"), /style-src 'self' 'unsafe-inline'.*frame-ancestors 'self'/)
    assert.equal((await baton.fetch("/terminal.html")).headers.get("x-frame-options"), "SAMEORIGIN")
    assert.doesNotMatch(await policy("/"), /unsafe/)
    const { page, finish } = await open(browser, baton)
    // Orders of another window than the page around the frame have no effect.
    const stranger = await page.context().newPage()
    await stranger.goto(`${baton.url}/terminal.html`)
    await stranger.evaluate(() => window.postMessage({ kind: "open", socket: "ws://127.0.0.1:9/", cursor: 0 }, "*"))
    await stranger.locator(".xterm-screen").waitFor()
    await stranger.close()
    await finish()
  })

  test("a server that comes back keeps no terminal, and the page says so", async () => {
    const { page, finish, expect } = await begin()
    expect(/ERR_|WebSocket|50\d|404/)
    await type(page, "echo before")
    await line(page, /^before$/).waitFor()
    await baton.kill()
    await baton.begin()
    await page.getByText("No terminal is open in this directory.").waitFor()
    await finish()
  })

  test("keys leave the terminal, a screen reader gets its lines, and axe finds nothing", async () => {
    const { page, finish } = await begin()
    await type(page, "echo aloud-$((1 + 1))")
    await line(page, /^aloud-2$/).waitFor()
    await page.keyboard.press("F6")
    await page.waitForFunction(() => document.activeElement?.textContent === "Terminal 1")
    await page.getByRole("button", { name: "Screen reader" }).click()
    await screen(page).locator(".xterm-accessibility [role=listitem]", { hasText: /^aloud-2/ }).first().waitFor()
    assert.deepEqual(await violations(page), [])
    await clear()
    await finish()
  })
})
