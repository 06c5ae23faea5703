// The panel beside a session in a browser: changes with comments and undo, files, todos and events.

import assert from "node:assert/strict"
import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { repository, write } from "./support/repository.mjs"
import { armed, nodes } from "./support/screen.mjs"

const lines = (count, change = {}) => Array.from({ length: count }, (_, at) => change[at + 1] ?? `line ${at + 1}`).join("\n") + "\n"

describe("the panel beside a session", needsBrowser(), () => {
  let browser, baton, world, id
  before(async () => {
    browser = await launch()
    world = await repository(
      { "long.txt": lines(80), "gone.txt": "gone\n", "src/deep/main.rs": 'fn main() {\n    println!("hello");\n}\n' },
      {
        "long.txt": lines(80, { 5: "line five", 60: "line sixty" }),
        "gone.txt": null,
        "src/deep/main.rs": 'fn main() {\n    println!("hello world");\n}\n',
        "src/<img src=x onerror=alert(1)>.txt": "\u202etxt.exe\n",
      },
    )
    baton = await serve({ world })
    ;({ id } = await json(baton, "/session", { title: "Is reviewed" }))
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  const file = (name) => path.join(world.project, name)
  const changes = (scope = "tree", more = "") => ({ fragment: `#/s/${id}?panel=changes&scope=${scope}${more}` })
  const line = (page, text) => page.locator(".diff-line", { hasText: text }).first()
  const jump = (page, name) => page.locator(".changed-files").getByRole("button", { name, exact: true }).click()

  test("the panel is in the address, is remembered for the session, and closes with Escape", async () => {
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await page.getByRole("link", { name: "Changes" }).click()
    await page.getByLabel("Changes of").selectOption("the working tree")
    await line(page, "line five").waitFor()
    assert.match(page.url(), /panel=changes&scope=tree/)
    await page.reload()
    await line(page, "line five").waitFor()
    await page.goto(`${baton.url}/#/needs`)
    await page.getByText("Nothing needs you").waitFor()
    await page.goto(`${baton.url}/#/s/${id}`)
    await page.locator("aside.panel").waitFor()
    await page.locator("aside.panel").getByLabel("Changes of").focus()
    await page.keyboard.press("Escape")
    await page.locator("aside.panel").waitFor({ state: "detached" })
    await page.reload()
    await page.getByLabel("Prompt").waitFor()
    assert.equal(await page.locator("aside.panel").count(), 0, "a closed panel stays closed")
    await finish()
  })

  test("below 1100 pixels the panel lies over the session", async () => {
    const { page, finish } = await open(browser, baton, { ...changes(), viewport: { width: 900, height: 700 } })
    await line(page, "line five").waitFor()
    assert.equal(await page.locator("aside.panel").evaluate((it) => getComputedStyle(it).position), "fixed")
    await finish()
  })

  test("files form a tree, words within lines are marked, and the view can be split", async () => {
    const { page, finish } = await open(browser, baton, changes())
    const tree = page.locator(".changed-files")
    await tree.getByText("4 files").waitFor()
    await tree.getByRole("button", { name: "src", exact: true }).waitFor()
    await jump(page, "main.rs")
    await line(page, "hello world").waitFor()
    assert.deepEqual(await line(page, "hello world").locator("mark").allInnerTexts(), [" world"])
    assert.equal(await page.locator(".diff-line.split").count(), 0)
    await page.getByRole("button", { name: "Split" }).click()
    await page.locator(".diff-line.split").first().waitFor()
    await page.reload()
    await page.locator(".diff-line.split").first().waitFor()
    await page.getByRole("button", { name: "Split" }).click()
    await page.locator(".diff-line.split").first().waitFor({ state: "detached" })
    await finish()
  })

  test("names and lines of files are text, whatever they contain", async () => {
    const { page, finish } = await open(browser, baton, changes())
    await jump(page, "<img src=x onerror=alert(1)>.txt")
    await line(page, "⟨U+202E⟩txt.exe").waitFor()
    assert.equal(await page.locator(".panel img").count(), 0)
    await finish()
  })

  test("a viewed file is folded, and a new change unsets the mark", async () => {
    const { page, finish } = await open(browser, baton, changes())
    const box = page.getByRole("checkbox", { name: "Viewed src/deep/main.rs" })
    await box.check()
    await page.getByText("1 of 4 viewed").waitFor()
    await page.reload()
    await page.getByText("1 of 4 viewed").waitFor()
    assert.equal(await box.isChecked(), true)
    assert.equal(await line(page, "hello world").count(), 0)
    await write(world, "src/deep/main.rs", 'fn main() {\n    println!("hello there");\n}\n')
    await page.getByRole("button", { name: "Read again" }).click()
    await page.getByText("0 of 4 viewed").waitFor()
    await finish()
  })

  test("comments are kept, know when the code changes, and become one prompt", async () => {
    await write(world, "src/deep/main.rs", 'fn main() {\n    println!("hello there");\n}\n')
    const { page, finish } = await open(browser, baton, changes())
    await jump(page, "main.rs")
    await page.getByRole("button", { name: "Comment on line 2" }).last().click()
    await page.getByLabel("Comment", { exact: true }).fill("Say goodbye instead.")
    await page.getByRole("button", { name: "Add comment" }).click()
    await page.locator(".comment", { hasText: "Say goodbye" }).waitFor()
    await jump(page, "long.txt")
    const number = page.locator(".diff-line", { hasText: "line five" }).getByRole("button", { name: "Comment on line 5" })
    await number.click()
    await line(page, "line 7").getByRole("button", { name: "Comment on line 7" }).last().click({ modifiers: ["Shift"] })
    await page.getByText("Lines 5–7").waitFor()
    await page.getByLabel("Comment", { exact: true }).fill("Why these?")
    await page.getByLabel("Comment", { exact: true }).press("Control+Enter")
    await page.getByText("2 comments").waitFor()
    await page.reload()
    await page.getByText("2 comments").waitFor()
    await write(world, "src/deep/main.rs", 'fn main() {\n    println!("hello moon");\n}\n')
    await page.getByRole("button", { name: "Read again" }).click()
    await jump(page, "main.rs")
    await page.locator(".comment", { hasText: "Say goodbye" }).getByText("the code changed").waitFor()
    await page.getByLabel("Prompt").fill("A beginning.")
    // The draft is stored before the review is added to it.
    await page.getByRole("button", { name: "Send review" }).click()
    await page.getByText("2 comments").waitFor({ state: "detached" })
    await page.waitForFunction(() => document.querySelector(".composer textarea").value.includes("Say goodbye"))
    const text = await page.getByLabel("Prompt").inputValue()
    assert.match(text, /\*\*long\.txt:5-7\*\*\n```\nline five\nline 6\nline 7\n```\nWhy these\?/)
    assert.match(text, /\*\*src\/deep\/main\.rs:2\*\*\n```\n    println!\("hello there"\);\n```\nSay goodbye instead\.$/)
    await finish()
  })

  test("letters move through the changes, and do not answer a request", async () => {
    const asking = await prompt(baton, "permission", "hello", "Asks while it is reviewed")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${asking}?panel=changes&scope=tree` })
    await armed(page)
    const list = page.locator(".diffs")
    await list.focus()
    const top = () => list.evaluate((it) => it.scrollTop)
    await page.keyboard.press("n")
    assert.ok((await top()) > 0, "the next hunk")
    const first = await top()
    await page.keyboard.press("j")
    assert.notEqual(await top(), first, "the next file")
    assert.equal((await json(baton, "/permission")).length, 1)
    await page.keyboard.press("c")
    await page.getByLabel("Comment", { exact: true }).waitFor()
    await page.keyboard.press("Escape")
    await page.getByLabel("Comment", { exact: true }).waitFor({ state: "detached" })
    await page.locator(".transcript").focus()
    await page.keyboard.press("n")
    await page.locator(".request").waitFor({ state: "detached" })
    await finish()
  })

  test("a hunk and a file are undone after a question", async () => {
    const { page, finish } = await open(browser, baton, changes())
    await jump(page, "long.txt")
    await page.locator(".hunk").nth(1).waitFor()
    await page.locator(".hunk", { hasText: "Line 57" }).getByRole("button", { name: "Undo" }).click()
    const dialog = page.getByRole("dialog")
    await dialog.getByRole("button", { name: "Cancel" }).click()
    assert.match(await readFile(file("long.txt"), "utf8"), /line sixty/)
    await page.locator(".hunk", { hasText: "Line 57" }).getByRole("button", { name: "Undo" }).click()
    await dialog.getByRole("button", { name: "Undo" }).click()
    await dialog.waitFor({ state: "detached" })
    assert.equal(await readFile(file("long.txt"), "utf8"), lines(80, { 5: "line five" }))
    await jump(page, "gone.txt")
    await page.locator(".file-head", { hasText: "gone.txt" }).getByRole("button", { name: "Undo" }).click()
    await dialog.getByRole("button", { name: "Undo" }).click()
    await dialog.waitFor({ state: "detached" })
    assert.equal(existsSync(file("gone.txt")), true)
    await page.locator(".changed-files").getByText("3 files").waitFor()
    await finish()
  })

  test("the changes of a turn open from the transcript, and those of the session", async () => {
    const edited = await prompt(baton, "read_edit", "hello", "Edits the readme")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${edited}` })
    await page.getByRole("link", { name: "changed 1 file" }).click()
    await line(page, "Added by the demo.").waitFor()
    assert.match(page.url(), /scope=turn&turn=msg_/)
    await page.getByLabel("Changes of").selectOption("the session")
    await line(page, "Added by the demo.").waitFor()
    await page.getByLabel("Changes of").selectOption("the branch")
    await page.locator(".changed-files", { hasText: "files" }).waitFor()
    await finish()
  })

  test("files are read, linked by line, searched and mentioned", async () => {
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}?panel=files` })
    await page.getByRole("button", { name: "src" }).click()
    await page.getByRole("button", { name: "deep" }).click()
    await page.getByRole("link", { name: "main.rs" }).click()
    await page.locator(".source-line", { hasText: "fn main" }).waitFor()
    await page.locator('.source-line [data-token="keyword"]', { hasText: "fn" }).waitFor()
    await page.getByRole("button", { name: "Line 2", exact: true }).click()
    assert.match(page.url(), /line=2/)
    await page.getByRole("button", { name: "Line 3", exact: true }).click({ modifiers: ["Shift"] })
    assert.match(page.url(), /line=2-3/)
    await page.getByRole("button", { name: "Mention in prompt" }).click()
    await page.waitForFunction(() => document.querySelector(".composer textarea").value.includes("src/deep/main.rs:2-3"))
    await page.getByLabel("Search in files").fill("line 79")
    await page.getByLabel("Search in files").press("Enter")
    await page.locator(".matches a", { hasText: "long.txt:79" }).click()
    await page.locator('.source-line[data-chosen="true"]', { hasText: "line 79" }).waitFor()
    await finish()
  })

  test("todos and events are shown as they come", async () => {
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}?panel=events` })
    await page.getByText("No event has arrived").waitFor()
    const other = await prompt(baton, "todo", "hello", "Has todos")
    await page.getByRole("button", { name: "This session only" }).click()
    await page.locator(".frame-row", { hasText: "todo.updated" }).first().click()
    await page.locator(".frame-json", { hasText: "First thing" }).waitFor()
    await page.goto(`${baton.url}/#/s/${other}?panel=todos`)
    await page.locator(".todo-panel li", { hasText: "First thing" }).waitFor()
    await page.locator(".todo-panel li", { hasText: "in progress" }).waitFor()
    await finish()
  })
})

describe("a large review", needsBrowser(), () => {
  test("500 files, 100,000 lines and a line of a megabyte stay within bounds", async (t) => {
    const body = lines(200)
    const many = (text) => Object.fromEntries(Array.from({ length: 499 }, (_, at) => [`many/file${String(at).padStart(3, "0")}.txt`, text]))
    const world = await repository(many("one\n"), { ...many(body), "a-long-line.txt": "x".repeat(1_000_000) })
    const baton = await serve({ world })
    const browser = await launch()
    t.after(async () => {
      await browser.close()
      await baton.stop()
    })
    const { id } = await json(baton, "/session", { title: "Is large" })
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}?panel=changes&scope=tree` })
    await page.locator(".diff-line").first().waitFor()
    assert.ok((await nodes(page)) < 4_000, `${await nodes(page)} nodes`)
    const list = page.locator(".diffs")
    await page.locator(".changed-files summary").click()
    await page.locator(".changed-files .tree-row", { hasText: "file000.txt" }).waitFor()
    await list.evaluate((it) => it.scrollTo(0, it.scrollHeight))
    await page.locator(".file-head", { hasText: "file498.txt" }).waitFor()
    await page.locator(".file-head", { hasText: "file498.txt" }).getByRole("button", { name: /Lines of/ }).click()
    await list.evaluate((it) => it.scrollTo(0, it.scrollHeight))
    await page.locator(".diff-line", { hasText: "line 200" }).waitFor()
    assert.ok((await nodes(page)) < 4_000, `${await nodes(page)} nodes`)
    await finish()
  })
})
