// The composer in a browser: completion of mentions and commands, shell lines and the history of prompts.

import assert from "node:assert/strict"
import { mkdir, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { violations } from "./support/axe.mjs"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { World, listing } from "./support/server.mjs"

const COMMAND = "---\ndescription: Say a thing\n---\n[[scenario:simple]] Say $ARGUMENTS.\n"

describe("the composer", needsBrowser(), () => {
  let browser, baton
  before(async () => {
    browser = await launch()
    const world = await World.create()
    await mkdir(path.join(world.project, "source"))
    await writeFile(path.join(world.project, "source/two words.txt"), "Some text.\n")
    const commands = path.join(world.home, "config/opencode/command")
    await mkdir(commands, { recursive: true })
    await writeFile(path.join(commands, "say.md"), COMMAND)
    baton = await serve({ world, env: listing("simple") })
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  const box = (page) => page.locator(".composer textarea")
  const options = (page) => page.getByRole("listbox", { name: "Suggestions" }).getByRole("option")
  const selected = (page) => page.locator('.completion [aria-selected="true"] .name').innerText()
  const holds = (page, text) =>
    page.waitForFunction((text) => document.querySelector(".composer textarea").value === text, text)
  const ended = (page, reason = "Completed") => page.locator(".head .state", { hasText: reason }).waitFor()
  const make = async (title, more = {}) => (await json(baton, "/session", { title, ...more })).id
  const messages = (id) => json(baton, `/session/${id}/message`)

  test("files, agents and resources are mentioned with the keyboard, and become parts of the prompt", async () => {
    const id = await make("Has mentions")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    const notes = { name: "notes", uri: "wiki://notes", client: "wiki", mimeType: "text/markdown" }
    await page.route("**/experimental/resource*", (route) => route.fulfill({ json: { "wiki:notes": notes } }))
    await box(page).pressSequentially("Look at @two")
    await options(page).filter({ hasText: "source/two words.txt" }).waitFor()
    assert.equal(await box(page).getAttribute("role"), "combobox")
    assert.equal(await box(page).getAttribute("aria-expanded"), "true")
    const active = await box(page).getAttribute("aria-activedescendant")
    assert.equal(await page.locator(`#${active}`).getAttribute("aria-selected"), "true")
    assert.deepEqual(await violations(page), [])
    await page.keyboard.press("Enter")
    await holds(page, "Look at @source/two words.txt ")
    assert.equal(await box(page).getAttribute("role"), null, "a plain text box while the list is closed")
    await box(page).pressSequentially("with @expl")
    await options(page).filter({ hasText: "@explore" }).waitFor()
    await page.keyboard.press("Tab")
    await box(page).pressSequentially("and @note")
    await options(page).filter({ hasText: "wiki://notes" }).waitFor()
    // Escape closes the list, and nothing else; a key opens it again.
    await page.keyboard.press("Escape")
    await page.locator(".completion").waitFor({ state: "detached" })
    // Files that arrive later move the entries of the list.
    const files = page.waitForResponse((response) => /find\/file.*query=notes\b/.test(response.url()))
    await box(page).pressSequentially("s")
    await files
    await options(page).filter({ hasText: "wiki://notes" }).click()
    await holds(page, "Look at @source/two words.txt with @explore and @notes ")
    // A reload keeps what was chosen.
    await page.reload()
    await holds(page, "Look at @source/two words.txt with @explore and @notes ")
    await page.getByLabel("Model").selectOption("demo/simple")
    const call = page.waitForRequest((request) => request.url().includes("prompt_async"))
    // The cursor is at the end, after a space: Enter sends.
    await box(page).focus()
    await page.keyboard.press("Enter")
    const { parts } = (await call).postDataJSON()
    assert.deepEqual(parts.map(({ type, filename, name }) => `${type} ${filename ?? name ?? ""}`), [
      "text ",
      "file source/two words.txt",
      "agent explore",
      "file notes",
    ])
    assert.equal(parts[1].url, `file://${baton.directory}/source/two%20words.txt`)
    assert.deepEqual(parts[3].source, {
      type: "resource",
      clientName: "wiki",
      uri: "wiki://notes",
      text: { value: "@notes", start: 48, end: 54 },
    })
    await page.locator(".message.user .chip", { hasText: "@explore" }).waitFor()
    await page.locator(".assistant", { hasText: "All is well." }).waitFor()
    await ended(page)
    const [first] = await messages(id)
    assert.ok(first.parts.some(({ text }) => text?.includes("Some text.")), "the server has read the file")
    await finish()
  })

  test("arrows choose an entry, and a name that no longer stands in the text is not sent", async () => {
    const id = await make("Chooses with arrows")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await box(page).pressSequentially("/")
    await options(page).filter({ hasText: "/say" }).waitFor()
    const names = await page.locator(".completion .name").allInnerTexts()
    for (const name of ["/continue", "/init", "/stop", "/say", "/compact"]) assert.ok(names.includes(name), name)
    assert.equal(await selected(page), names[0])
    await page.keyboard.press("ArrowDown")
    assert.equal(await selected(page), names[1])
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("ArrowUp")
    assert.equal(await selected(page), names.at(-1), "the list is a ring")
    await box(page).fill("")
    await box(page).pressSequentially("@READ")
    await options(page).filter({ hasText: "README.md" }).waitFor()
    await page.keyboard.press("Enter")
    await holds(page, "@README.md ")
    await box(page).fill("@README.mdx hello")
    await page.getByLabel("Model").selectOption("demo/simple")
    const call = page.waitForRequest((request) => request.url().includes("prompt_async"))
    await page.getByRole("button", { name: "Send" }).click()
    assert.deepEqual((await call).postDataJSON().parts, [{ type: "text", text: "@README.mdx hello" }])
    await ended(page)
    await finish()
  })

  test("a command is completed and run, and a prompt behind it does not wait for its turn", async () => {
    const id = await make("Runs a command")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.getByLabel("Model").selectOption("demo/simple")
    await box(page).pressSequentially("/sa")
    await options(page).filter({ hasText: "Say a thing" }).waitFor()
    await page.keyboard.press("Enter")
    await holds(page, "/say ")
    await box(page).pressSequentially("hello")
    await page.keyboard.press("Enter")
    await page.locator(".message.user .typed", { hasText: "/say hello" }).waitFor()
    await page.locator(".assistant", { hasText: "All is well." }).waitFor()
    await ended(page)
    const [first] = await messages(id)
    assert.deepEqual(first.info.origin, { type: "command", name: "say", arguments: "hello" })
    // A turn of a command that goes on: the next prompt is queued at once.
    await page.route("**/command", (route) => route.continue({ postData: { ...route.request().postDataJSON(), model: "demo/slow:10000@20" } }))
    await box(page).fill("/review this")
    await page.keyboard.press("Enter")
    await page.getByRole("button", { name: "Queue" }).waitFor()
    await box(page).fill("afterwards")
    await page.getByRole("button", { name: "Queue" }).click()
    await page.locator(".queue li", { hasText: "afterwards" }).waitFor()
    // /stop ends it all.
    await box(page).fill("/stop")
    await page.keyboard.press("Enter")
    await page.locator(".end", { hasText: "Stopped" }).waitFor()
    await holds(page, "")
    await finish()
  })

  test("a path at the beginning of a text is no command", async () => {
    const id = await make("Mentions a path")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.getByLabel("Model").selectOption("demo/simple")
    await box(page).fill("/etc/hosts is wrong")
    await page.keyboard.press("Enter")
    await page.locator(".message.user", { hasText: "/etc/hosts is wrong" }).waitFor()
    await page.locator(".assistant", { hasText: "All is well." }).waitFor()
    assert.equal((await messages(id))[0].info.origin, undefined)
    await finish()
  })

  test("an exclamation mark runs a line in the shell, but not during a turn", async () => {
    const id = await make("Runs a shell")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await box(page).fill("!echo from-the-shell")
    await page.getByText("Runs in a shell, without the agent").waitFor()
    await page.keyboard.press("Enter")
    await page.locator(".message.user .typed", { hasText: "!echo from-the-shell" }).waitFor()
    await page.locator(".assistant .tool", { hasText: "from-the-shell" }).waitFor()
    await ended(page)
    const model = { providerID: "demo", modelID: "slow:10000@20" }
    await json(baton, `/session/${id}/prompt_async`, { model, parts: [{ type: "text", text: "hello" }] })
    await page.getByRole("button", { name: "Queue" }).waitFor()
    await box(page).fill("!echo too-soon")
    await page.keyboard.press("Enter")
    await page.getByRole("alert").filter({ hasText: "only while no turn does" }).waitFor()
    await holds(page, "!echo too-soon")
    await json(baton, `/session/${id}/abort`, {})
    await page.getByRole("button", { name: "Send" }).click()
    await page.locator(".assistant .tool", { hasText: "too-soon" }).waitFor()
    await finish()
  })

  test("a summary is asked for with /compact, and refused in an empty session", async () => {
    const empty = await make("Is empty")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${empty}` })
    await box(page).fill("/compact")
    await page.keyboard.press("Enter")
    await page.getByRole("alert").filter({ hasText: "nothing to summarise" }).waitFor()
    await holds(page, "/compact")
    const id = await prompt(baton, "simple", "hello", "Is summarised")
    await page.goto(`${baton.url}/#/s/${id}`)
    await page.locator(".assistant", { hasText: "All is well." }).waitFor()
    await box(page).fill("/compact")
    await page.keyboard.press("Enter")
    await holds(page, "")
    await page.locator(".chip", { hasText: "The conversation was summarised here" }).waitFor()
    await ended(page)
    assert.ok((await messages(id)).some(({ info }) => info.summary === true))
    await finish()
  })

  test("the arrow up brings own prompts back in an empty box only", async () => {
    const id = await prompt(baton, "simple", "the first", "Has a history")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.locator(".assistant", { hasText: "All is well." }).waitFor()
    await page.getByLabel("Model").selectOption("demo/simple")
    await box(page).fill("the second")
    await page.keyboard.press("Enter")
    await page.locator(".message.user").nth(1).waitFor()
    await ended(page)
    await box(page).focus()
    await page.keyboard.press("ArrowUp")
    await holds(page, "the second")
    await page.keyboard.press("ArrowUp")
    await holds(page, "the first")
    await page.keyboard.press("ArrowUp")
    await holds(page, "the first")
    await page.keyboard.press("ArrowDown")
    await holds(page, "the second")
    await page.keyboard.press("ArrowDown")
    await holds(page, "")
    await box(page).fill("a draft")
    await page.keyboard.press("ArrowUp")
    await holds(page, "a draft")
    await finish()
  })

  test("an input method decides about its own keys", async () => {
    const id = await make("Has an input method")
    const { page, context, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await box(page).focus()
    const devtools = await context.newCDPSession(page)
    await devtools.send("Input.imeSetComposition", { text: "@ni", selectionStart: 3, selectionEnd: 3 })
    await holds(page, "@ni")
    assert.equal(await page.locator(".completion").count(), 0, "no list during a composition")
    // Enter during a composition confirms the word; it sends nothing.
    await box(page).dispatchEvent("keydown", { key: "Enter", isComposing: true })
    await devtools.send("Input.insertText", { text: "@READ" })
    await options(page).filter({ hasText: "README.md" }).waitFor()
    assert.deepEqual(await messages(id), [])
    await finish()
  })
})
