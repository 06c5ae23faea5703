// Text of models, tools and titles that tries to become more than text; and the page for every user.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { accessible } from "./support/axe.mjs"
import { json, launch, needsBrowser, open, prompt, serve } from "./support/browser.mjs"
import { MARKUP, PAYLOADS, RUN } from "./support/hostile.mjs"
import { git, repository } from "./support/repository.mjs"
import { armed, ends, unfold } from "./support/screen.mjs"

// The last ones look like another name.
const FILES = ["<img src=x onerror=window.hacked=1>.txt", "<svg onload=window.hacked=1>.md", "\u202egnp.exe", "a\u2066b\u2069.rs", "раураl.txt"]
// Git allows these characters in the name of a branch.
const BRANCH = `<svg/onload=${RUN}>`
const say = (text) => ({ do: "text", text })
const stop = { do: "finish", reason: "stop" }

const SCENARIOS = {
  hostile: {
    about: "says hostile things",
    steps: [[{ do: "reasoning", text: MARKUP.join("\n\n") }, say(PAYLOADS.join("\n\n")), stop]],
  },
  hostile_tool: {
    about: "calls tools with hostile names and arguments",
    steps: [
      [
        { do: "tool", name: MARKUP[0], input: { [MARKUP[1]]: MARKUP.join("\n") } },
        { do: "tool", name: "read", input: { filePath: `${MARKUP[1]}\u202e\u0000.md` } },
        { do: "finish", reason: "tool-calls" },
      ],
      [say("Done."), stop],
    ],
  },
  hostile_question: {
    about: "asks with hostile words",
    steps: [
      [
        {
          do: "tool",
          name: "question",
          input: { questions: [{ question: MARKUP.join("\n"), header: MARKUP[1], options: MARKUP.slice(0, 4).map((label) => ({ label, description: label })), multiple: false }] },
        },
        { do: "finish", reason: "tool-calls" },
      ],
      [say("Done."), stop],
    ],
  },
  hostile_todo: {
    about: "keeps hostile todos",
    steps: [
      [
        { do: "tool", name: "todowrite", input: { todos: MARKUP.map((content) => ({ content, status: "completed", priority: "high" })) } },
        { do: "finish", reason: "tool-calls" },
      ],
      [say("Done."), stop],
    ],
  },
  hostile_command: {
    about: "runs a hostile command",
    steps: [
      [{ do: "tool", name: "bash", input: { command: `touch x # ${MARKUP.join(" ")}`, description: MARKUP[1] } }, { do: "finish", reason: "tool-calls" }],
      [say("Done."), stop],
    ],
  },
  hostile_error: { about: "refuses with a hostile text", steps: [[{ do: "http", status: 400, body: { error: { message: MARKUP.join("\n") } } }]] },
  pretty: {
    about: "shows what Markdown can do",
    steps: [
      [
        say(
          "# Result\n\nA **bold** word, `code`, a [link](https://example.com) and a trap: [github.com](https://evil.example).\n\n" +
            "- one\n- [x] two\n\n1. first\n2. second\n\n> a quote\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```js\nconst x = 1 < 2\n```\n",
        ),
        stop,
      ],
    ],
  },
}

describe("the web page and hostile text", needsBrowser(), () => {
  let browser, baton
  before(async () => {
    browser = await launch()
    const names = Object.fromEntries(FILES.map((name) => [name, "one\n"]))
    const world = await repository({ "README.md": "one\n" }, { ...names, "README.md": `${PAYLOADS.join("\n")}\n` })
    git(world, "checkout", "-q", "-b", BRANCH)
    baton = await serve({ world, scenarios: SCENARIOS })
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  // Nothing that others wrote has become an element, a handler or a link that runs something.
  const isText = async (page) => {
    await unfold(page)
    // A script or a handler that was accepted would have run within two frames.
    const hacked = await page.evaluate(
      () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(window.hacked)))),
    )
    assert.equal(hacked, undefined)
    const found = await page.evaluate(() => {
      const inside = "#page :is(script, iframe, object, embed, style, base, meta, link, video, audio, marquee), .message :is(img, svg, form)"
      const handlers = [...document.querySelectorAll("*")].filter((it) => [...it.attributes].some(({ name }) => name.startsWith("on")))
      const links = [...document.querySelectorAll("a[href]")].map((link) => link.protocol)
      return { elements: document.querySelectorAll(inside).length, handlers: handlers.length, links: [...new Set(links)].sort() }
    })
    assert.deepEqual({ elements: found.elements, handlers: found.handlers }, { elements: 0, handlers: 0 })
    for (const protocol of found.links) assert.match(protocol, /^(https?|mailto):$/)
  }
  const isQuiet = async (page) => {
    // The state is known before the messages are.
    await page.locator(".message.assistant").first().waitFor()
    await ends(page)
    await isText(page)
  }

  test(`${PAYLOADS.length} payloads in an answer, in thoughts and in a prompt stay text`, async () => {
    const id = await prompt(baton, "hostile", PAYLOADS.join("\n"), MARKUP[1])
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await isQuiet(page)
    const text = await page.locator(".message.assistant").innerText()
    assert.ok(text.includes(MARKUP[0]), "HTML is shown as it was written")
    assert.equal(await page.locator(".row .title").first().innerText(), MARKUP[1])
    await finish()
  })

  test("names, arguments and results of tools stay text, and hidden characters are shown", async () => {
    const id = await prompt(baton, "hostile_tool")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await isQuiet(page)
    await page.locator(".transcript", { hasText: "U+202E" }).waitFor()
    await finish()
  })

  test("questions, todos, commands and errors stay text", async () => {
    const asked = await prompt(baton, "hostile_question", "hello", MARKUP[2])
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${asked}` })
    await armed(page)
    await isText(page)
    await page.getByRole("button", { name: "Dismiss" }).click()
    await page.locator(".request").waitFor({ state: "detached" })
    const commanded = await prompt(baton, "hostile_command", "hello", MARKUP[3])
    await page.goto(`${baton.url}/#/s/${commanded}`)
    await armed(page)
    await isText(page)
    await page.keyboard.press("n")
    await page.locator(".request").waitFor({ state: "detached" })
    const listed = await prompt(baton, "hostile_todo", "hello", MARKUP[4])
    await page.goto(`${baton.url}/#/s/${listed}?panel=todos`)
    await page.locator(".todo-panel li").first().waitFor()
    await isText(page)
    const failed = await prompt(baton, "hostile_error", "hello", MARKUP[5])
    await page.goto(`${baton.url}/#/s/${failed}`)
    await page.locator(".message .error, .end").first().waitFor()
    await isText(page)
    await page.goto(`${baton.url}/#/needs`)
    await page.locator(".need").first().waitFor()
    await isText(page)
    await finish()
  })

  test("names of sessions, files and branches stay text, and look-alike names are shown", async () => {
    for (const title of MARKUP) await json(baton, "/session", { title })
    const id = await prompt(baton, "pretty", "hello", "Looks at files")
    const { page, finish } = await open(browser, baton)
    await page.locator(".row", { hasText: MARKUP[0] }).first().waitFor()
    await isText(page)
    await page.goto(`${baton.url}/#/s/${id}?panel=changes&scope=tree`)
    await page.locator(".diff-line").first().waitFor()
    await isText(page)
    await page.locator(".changed-files", { hasText: "U+202E" }).waitFor()
    await page.goto(`${baton.url}/#/s/${id}?panel=files`)
    await page.locator(".tree-row", { hasText: "U+202E" }).waitFor()
    await isText(page)
    await page.goto(`${baton.url}/#/s/${id}?panel=files&file=README.md`)
    await page.locator(".source-line").first().waitFor()
    await isText(page)
    await page.keyboard.press("Control+k")
    await page.getByRole("combobox", { name: "Palette" }).fill("svg")
    await page.locator(".palette [role=option]").first().waitFor()
    await isText(page)
    await finish()
  })

  test("Markdown becomes elements, and a link to another host than it names shows the host", async () => {
    const id = await prompt(baton, "pretty")
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    await ends(page)
    for (const [selector, text] of [
      [".markdown strong", "bold"],
      [".markdown code", "code"],
      [".markdown li >> nth=1", "two"],
      [".markdown blockquote", "a quote"],
      [".markdown td >> nth=1", "2"],
      [".markdown pre", "const x = 1 < 2"],
    ]) {
      assert.equal((await page.locator(selector).first().textContent()).trim(), text, selector)
    }
    const link = page.getByRole("link", { name: "link", exact: true })
    assert.equal(await link.getAttribute("rel"), "noopener noreferrer")
    assert.equal(await page.locator(".markdown .host").textContent(), " (evil.example)")
    await finish()
  })

  describe("for every user", () => {
    let sessions
    before(async () => {
      sessions = {
        pretty: await prompt(baton, "pretty", "hello", "Is pretty"),
        edit: await prompt(baton, "read_edit", "hello", "Edits a file"),
        permission: await prompt(baton, "permission", "hello", "Asks"),
        question: await prompt(baton, "question", "hello", "Has a question"),
      }
    })

    for (const colorScheme of ["light", "dark"]) {
      test(`axe finds nothing on any screen (${colorScheme})`, async () => {
        const { page, finish } = await open(browser, baton, { colorScheme, reducedMotion: "reduce" })
        await page.locator(".row").first().waitFor()
        await accessible(page, "list")
        for (const [name, id] of Object.entries(sessions)) {
          await page.goto(`${baton.url}/#/s/${id}`)
          await page.locator(".message.user").waitFor()
          if (["permission", "question"].includes(name)) await armed(page)
          else await ends(page)
          await unfold(page)
          await accessible(page, name)
        }
        await page.goto(`${baton.url}/#/new`)
        await page.getByLabel("Directory").waitFor()
        await accessible(page, "new")
        await finish()
      })
    }

    for (const [width, height] of [
      [320, 568],
      [390, 844],
      [768, 1024],
    ]) {
      test(`nothing is cut off at ${width}×${height}`, async () => {
        const { page, finish } = await open(browser, baton, { viewport: { width, height } })
        const fits = async (name) => {
          const wide = await page.evaluate(() => {
            const boxes = [...document.querySelectorAll("button, input, textarea, select, .row, .head, .request, .composer")]
            const shown = boxes.filter((box) => box.getClientRects().length > 0)
            return shown.filter((box) => box.getBoundingClientRect().right > innerWidth + 1).map((box) => box.outerHTML.slice(0, 120))
          })
          assert.deepEqual(wide, [], name)
          assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name)
        }
        await page.locator(".row").first().waitFor()
        await fits("list")
        for (const [name, id] of Object.entries(sessions)) {
          await page.goto(`${baton.url}/#/s/${id}`)
          await page.locator(".message.user").waitFor()
          await fits(name)
        }
        await page.goto(`${baton.url}/#/new`)
        await page.getByLabel("Directory").waitFor()
        await fits("new")
        if (width < 720) {
          await page.goto(`${baton.url}/#/s/${sessions.pretty}`)
          await page.getByRole("link", { name: "All sessions" }).click()
          await page.locator(".row", { hasText: "Is pretty" }).waitFor()
        }
        await finish()
      })
    }
  })

  test("the page's own types are refused by the browser if they are strings", async () => {
    const { page, finish, expect } = await open(browser, baton)
    expect(/TrustedHTML|Trusted Type/)
    const refused = await page.evaluate(() => {
      try {
        document.createElement("div").innerHTML = "<b>x</b>"
        return false
      } catch {
        return true
      }
    })
    assert.equal(refused, true)
    assert.deepEqual(await json(baton, "/global/health").then(({ healthy }) => healthy), true)
    await finish()
  })
})
