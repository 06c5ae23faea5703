// The web page in the system's Chromium. Each test ends with a check of the errors that the browser recorded.

import assert from "node:assert/strict"
import { existsSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import path from "node:path"
import { chromium } from "playwright-core"
import { Baton, World } from "./server.mjs"

const PROGRAMS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
// Longer than any step takes on a busy machine.
const PATIENCE_MS = 30_000
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
]

const program = process.env.BATON_CHROMIUM ?? PROGRAMS.find((path) => existsSync(path))

// The options of a suite that needs a browser: skipped with a message without one, or failed if one is required.
export function needsBrowser() {
  if (program) return {}
  assert.notEqual(process.env.BATON_BROWSER, "required", "Chromium is not installed")
  console.error("SKIPPED: Chromium is not installed, so the web page was not tested in a browser")
  return { skip: "Chromium is not installed" }
}

export const launch = () => chromium.launch({ executablePath: program, args: FLAGS })

// BATON_WEB_DIR tests a page that was built by hand, without a new binary.
const folder = process.env.BATON_WEB_DIR
export const PAGE_ARGS = folder ? ["--web-dir", path.resolve(folder)] : []

// A server for the page, whose demo model also plays `scenarios`.
export async function serve({ args = [], scenarios, world, ...options } = {}) {
  const made = world ?? (await World.create())
  const more = [...PAGE_ARGS]
  if (scenarios) {
    const file = path.join(made.root, "scenarios.json")
    await writeFile(file, JSON.stringify(scenarios))
    more.push("--scenario-file", file)
  }
  return Baton.start({ ...options, world: made, args: [...args, ...more] })
}

// Opens a page that records errors, violations of its policy and calls to other hosts.
export async function open(browser, baton, { fragment = "", context, ...options } = {}) {
  const made = context ?? (await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options }))
  made.setDefaultTimeout(PATIENCE_MS)
  const page = await made.newPage()
  const trouble = []
  const expected = []
  page.on("console", (message) => {
    if (message.type() === "error") trouble.push(`console: ${message.text()}`)
  })
  page.on("pageerror", (error) => trouble.push(`error: ${error.message}`))
  page.on("request", (request) => {
    const url = new URL(request.url())
    if (!["data:", "blob:"].includes(url.protocol) && url.host !== new URL(baton.url).host) {
      trouble.push(`another host: ${request.url()}`)
    }
  })
  await page.goto(`${baton.url}/${fragment}`)
  return {
    page,
    context: made,
    // Errors that a test causes on purpose, such as those of a server that is stopped.
    expect: (pattern) => expected.push(pattern),
    async finish() {
      const unexpected = trouble.filter((text) => !expected.some((pattern) => pattern.test(text)))
      await page.close()
      assert.deepEqual(unexpected, [])
    },
  }
}

export const json = async (baton, target, body) => {
  const response = await baton.fetch(target, {
    method: body === undefined ? "GET" : "POST",
    headers: { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  })
  assert.ok(response.ok, `${target}: ${response.status}`)
  return response.status === 204 ? undefined : response.json()
}

// Creates a session and prompts it with a scenario of the demo model.
export async function prompt(baton, scenario, text = "hello", title) {
  const { id } = await json(baton, "/session", title ? { title } : {})
  const model = { providerID: "demo", modelID: scenario }
  await json(baton, `/session/${id}/prompt_async`, { model, parts: [{ type: "text", text }] })
  return id
}
