// MCP servers in the settings of the page: real programs that connect, disconnect and fail.

import assert from "node:assert/strict"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import path from "node:path"
import { after, before, describe, test } from "node:test"
import { fileURLToPath } from "node:url"
import { accessible } from "./support/axe.mjs"
import { json, launch, needsBrowser, open, serve } from "./support/browser.mjs"
import { World } from "./support/server.mjs"
import { eventually } from "./support/stream.mjs"

const PROGRAM = fileURLToPath(new URL("support/mcp-server.mjs", import.meta.url))
const SCENARIOS = {
  greeting: {
    about: "calls the tool of an MCP server",
    steps: [
      [{ do: "tool", name: "greeter_greet", input: { name: "Ada" } }, { do: "finish", reason: "tool-calls" }],
      [{ do: "text", text: "Done." }, { do: "finish", reason: "stop" }],
    ],
  },
}

const isRunning = (pid) => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe("MCP servers in the page", needsBrowser(), () => {
  let browser, baton, world, pid
  before(async () => {
    browser = await launch()
    world = await World.create()
    const local = (...command) => ({ type: "local", command })
    const mcp = {
      greeter: local(process.execPath, PROGRAM, path.join(world.root, "pid")),
      absent: local(path.join(world.root, "does-not-exist")),
      idle: { ...local(process.execPath, PROGRAM, path.join(world.root, "other-pid")), enabled: false },
    }
    const folder = path.join(world.home, "config/opencode")
    await mkdir(folder, { recursive: true })
    await writeFile(path.join(folder, "opencode.json"), JSON.stringify({ mcp }))
    baton = await serve({ world, scenarios: SCENARIOS })
    pid = async () => Number(await readFile(path.join(world.root, "pid"), "utf8"))
  })
  after(async () => {
    await browser.close()
    await baton.stop()
  })

  const line = (page, name, status) => page.locator(`.mcp li[data-status="${status}"]`, { hasText: name })

  test("a server is listed, disconnects and connects, and one that cannot start says why", async () => {
    const { page, finish } = await open(browser, baton, { fragment: "#/settings/mcp" })
    await line(page, "greeter", "connected").waitFor()
    await line(page, "idle", "disabled").filter({ hasText: "not connected" }).waitFor()
    await line(page, "absent", "failed").filter({ hasText: "does-not-exist" }).waitFor()
    await accessible(page, "MCP servers")
    const first = await pid()
    await page.getByRole("button", { name: "Disconnect from greeter" }).click()
    await line(page, "greeter", "disabled").waitFor()
    await eventually(baton, async () => !isRunning(first), "the end of the program")
    await page.getByRole("button", { name: "Connect to greeter" }).click()
    await line(page, "greeter", "connected").waitFor()
    assert.notEqual(await pid(), first)
    await page.getByRole("button", { name: "Connect to idle" }).click()
    await line(page, "idle", "connected").waitFor()
    await page.getByRole("button", { name: "Connect to absent" }).click()
    await line(page, "absent", "failed").filter({ hasText: "does-not-exist" }).waitFor()
    await finish()
  })

  test("its tool is a card in the transcript", async () => {
    const { id } = await json(baton, "/session", { title: "Is greeted" })
    const { page, finish } = await open(browser, baton, { fragment: `#/s/${id}` })
    const model = { providerID: "demo", modelID: "greeting" }
    await json(baton, `/session/${id}/prompt_async`, { model, parts: [{ type: "text", text: "Greet Ada" }] })
    await page.locator(".assistant", { hasText: "Done." }).waitFor()
    const card = page.locator(".tool", { hasText: "greeter_greet" })
    await card.locator("summary").click()
    await card.getByText("Good morning, Ada").waitFor()
    await finish()
  })

  test("a program that dies is shown as failed without a reload, and can be connected again", async () => {
    const { page, finish } = await open(browser, baton, { fragment: "#/settings/mcp" })
    await line(page, "greeter", "connected").waitFor()
    const first = await pid()
    process.kill(first, "SIGKILL")
    await line(page, "greeter", "failed").locator(".error").waitFor()
    await page.getByRole("button", { name: "Connect to greeter" }).click()
    await line(page, "greeter", "connected").waitFor()
    assert.notEqual(await pid(), first)
    await finish()
  })

  test("another directory has its own servers", async () => {
    const directory = path.join(world.root, "elsewhere")
    await mkdir(directory)
    await writeFile(path.join(directory, "opencode.json"), JSON.stringify({ mcp: { extra: { type: "local", command: ["true"] } } }))
    await json(baton, `/session?directory=${encodeURIComponent(directory)}`, { title: "Is elsewhere" })
    const { page, finish } = await open(browser, baton, { fragment: "#/settings/mcp" })
    await line(page, "greeter", "connected").waitFor()
    assert.equal(await line(page, "extra", "failed").count(), 0)
    await page.getByLabel("Directory").selectOption(directory)
    // A project may not start programs before the user trusts it.
    await line(page, "extra", "failed").filter({ hasText: "not trusted" }).waitFor()
    await finish()
  })
})
