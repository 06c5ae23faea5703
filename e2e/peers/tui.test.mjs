// OpenCode's terminal interface attached to Baton. The tests read its screen.

import assert from "node:assert/strict"
import { existsSync } from "node:fs"
import path from "node:path"
import { after, afterEach, before, describe, test } from "node:test"
import { Model } from "./support/model.mjs"
import { environment, opencode, startBaton } from "./support/peers.mjs"
import { Terminal } from "./support/terminal.mjs"

// Attempts to press Enter on a slash command, and the time for each.
const ATTEMPTS = 5
const TAKEN_MS = 3_000
// The calls of the interface at start, some of them after it has drawn its first screen.
const ASKED = [
  ...["/global/event", "/config/providers", "/provider", "/agent", "/config", "/path", "/project/current"],
  ...["/experimental/capabilities", "/experimental/console", "/session", "/command", "/lsp", "/mcp"],
  ...["/experimental/resource", "/formatter", "/session/status", "/provider/auth", "/vcs"],
  ...["/experimental/workspace", "/experimental/workspace/status"],
  ...["location", "agent", "integration", "model", "provider", "reference", "command", "skill"].map(
    (name) => `/api/${name}`,
  ),
]

describe("the terminal interface", () => {
  let model, baton, terminals
  // Every terminal has its own name, because a terminal that is being closed still holds its socket.
  let opened = 0
  before(async () => {
    model = await Model.start()
    baton = await startBaton(model, { args: ["--print-logs", "--log-level", "debug"] })
    terminals = []
  })
  afterEach(async () => {
    model.release()
    await Promise.all(terminals.splice(0).map((terminal) => terminal.stop()))
  })
  after(async () => {
    await baton?.stop()
    await model?.stop()
  })

  // Attaches, and waits until this is on the screen: without a session, until prompts can be typed.
  const open = async (args, wanted) => {
    const command = opencode("attach", baton.url, ...args)
    const name = `terminal-${(opened += 1)}`
    const terminal = await Terminal.start(baton.world, name, command, environment(baton.world))
    terminals.push(terminal)
    await terminal.shows(wanted)
    return terminal
  }
  const attach = () => open([], /Build · Main Scripted/)
  const attachTo = (session, wanted) => open(["--session", session], wanted)

  const say = async (terminal, text) => {
    await terminal.type(text)
    await terminal.shows(text)
    await terminal.press("Enter")
  }

  // Types a slash command and chooses it from the suggestions.
  const slash = async (terminal, name) => {
    const offer = new RegExp(`/${name}\\s+\\S`)
    await terminal.type(`/${name}`)
    await terminal.shows(offer)
    // While the interface still filters its suggestions, it ignores Enter.
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      await terminal.press("Enter")
      const gone = await terminal.hides(offer, { ms: TAKEN_MS }).catch(() => undefined)
      if (gone !== undefined) return
    }
    assert.fail(`/${name} was not taken:\n${await terminal.screen()}`)
  }

  const json = async (target) => (await baton.fetch(target)).json()
  const newest = async () => (await json("/session"))[0]
  const asleep = async (terminal) => {
    await terminal.hides("esc interrupt")
    assert.deepEqual(await json("/session/status"), {})
  }

  test("starts without an error, and Baton answers every call", async () => {
    const from = baton.stderr.length
    const terminal = await attach()
    const screen = await terminal.shows(["Ask anything", `${baton.directory}:main`])
    assert.doesNotMatch(screen, /error|failed|exception/i)
    const calls = () => [...baton.stderr.slice(from).matchAll(/method=(\S+) path="([^"]+)" status=(\d+)/g)]
    const isAsked = (wanted) => calls().some(([, , path]) => path === wanted)
    await terminal.until(() => ASKED.every(isAsked), () => `calls of ${ASKED.filter((path) => !isAsked(path))}`)
    const refused = calls().filter(([, , , status]) => Number(status) >= 400)
    assert.deepEqual(refused.map(([line]) => line), [])
  })

  test("a prompt is answered with text that streams", async () => {
    const terminal = await attach()
    await say(terminal, "please [hold]")
    await terminal.shows(["I begin and wait", "esc interrupt"])
    model.release()
    await terminal.shows("I begin and wait until now.")
    await asleep(terminal)
  })

  test("a tool call is shown", async () => {
    const terminal = await attach()
    await say(terminal, "please [read]")
    await terminal.shows(["Let me look.", "→ Read README.md", "It says something to read."])
    await say(terminal, "please [shell]")
    await terminal.shows(["$ echo one two three", /┃\s+one two three/, "Counted."])
    await asleep(terminal)
  })

  test("a permission is asked for, allowed, and then rejected", async () => {
    const terminal = await attach()
    const file = path.join(baton.directory, "asked.txt")
    await say(terminal, "please [permission]")
    await terminal.shows(["Permission required", "$ touch asked.txt", "Allow once", "Reject"])
    assert.equal(existsSync(file), false)
    await terminal.press("Enter")
    await terminal.shows("The file is there.")
    assert.ok(existsSync(file))
    await asleep(terminal)
    await say(terminal, "once more [permission]")
    await terminal.shows("Permission required")
    await terminal.press("Escape")
    await terminal.hides("Permission required")
    await asleep(terminal)
  })

  test("a question is answered", async () => {
    const terminal = await attach()
    await say(terminal, "please [question]")
    await terminal.shows(["Which colour do you like?", "1. Blue", "2. Green"])
    await terminal.press("Down")
    await terminal.press("Enter")
    await terminal.shows(["# Questions", "Green", "A fine choice."])
    await asleep(terminal)
  })

  test("Escape twice aborts", async () => {
    const terminal = await attach()
    await say(terminal, "please [hold]")
    await terminal.shows(["I begin and wait", "esc interrupt"])
    await terminal.press("Escape")
    await terminal.shows("esc again to interrupt")
    await terminal.press("Escape")
    await terminal.shows("interrupted")
    await asleep(terminal)
    const answer = (await json(`/session/${(await newest()).id}/message`)).at(-1)
    assert.equal(answer.info.error.name, "MessageAbortedError")
    await say(terminal, "now [hello]")
    await terminal.shows("Hello from the scripted model.")
  })

  test("/sessions lists the sessions and opens one", async () => {
    const { id } = await (await baton.fetch("/session", { method: "POST" })).json()
    const body = JSON.stringify({ title: "An older conversation" })
    const headers = { "content-type": "application/json" }
    await baton.fetch(`/session/${id}`, { method: "PATCH", headers, body })
    const parts = [{ type: "text", text: "say [think]" }]
    await baton.fetch(`/session/${id}/message`, { method: "POST", headers, body: JSON.stringify({ parts }) })
    const terminal = await attach()
    await slash(terminal, "sessions")
    await terminal.shows(["Sessions", "Search", "An older conversation"])
    await terminal.type("An older")
    await terminal.until((screen) => screen.split("An older").length === 3, "the one session that fits")
    await terminal.press("Enter")
    await terminal.shows(["say [think]", "Then I speak."])
  })

  test("/models lists the models", async () => {
    const terminal = await attach()
    await slash(terminal, "models")
    await terminal.shows(["Select model", "Scripted", "● Main", "Small"])
    await terminal.type("Small")
    await terminal.shows(/Small\s+Scripted/)
    await terminal.press("Enter")
    await terminal.shows("Build · Small Scripted")
  })

  test("/undo reverts the last prompt and its changes, /redo restores them", async () => {
    const terminal = await attach()
    const file = path.join(baton.directory, "notes.txt")
    await say(terminal, "please [hello]")
    await terminal.shows("Hello from the scripted model.")
    await asleep(terminal)
    await say(terminal, "please [write]")
    await terminal.shows("Written down.")
    await asleep(terminal)
    assert.ok(existsSync(file))
    await slash(terminal, "undo")
    const undone = await terminal.shows([/1 message reverted/, "notes.txt"])
    assert.doesNotMatch(undone, /Written down/)
    assert.equal(existsSync(file), false)
    // The reverted prompt is in the input field; it is removed to type another one.
    await terminal.press("C-u")
    await slash(terminal, "redo")
    await terminal.shows("Written down.")
    assert.ok(existsSync(file))
  })

  test("/compact summarises", async () => {
    const terminal = await attach()
    await say(terminal, "please [hello]")
    await terminal.shows("Hello from the scripted model.")
    await slash(terminal, "compact")
    await terminal.shows([/─ Compaction ─/, "The summary of it all."])
    await asleep(terminal)
  })

  test("a client that attaches late sees pending requests", async () => {
    const first = await attach()
    await say(first, "please [question]")
    await first.shows("Which colour do you like?")
    const second = await attachTo((await newest()).id, "Which colour do you like?")
    await second.press("Enter")
    await Promise.all([first, second].map((terminal) => terminal.shows("A fine choice.")))
    await asleep(first)
    await say(first, "please [permission]")
    await first.shows("Permission required")
    const third = await attachTo((await newest()).id, "Permission required")
    await third.press("Enter")
    await Promise.all([first, third].map((terminal) => terminal.shows("The file is there.")))
    await asleep(third)
  })

  test("two terminals on one session see the same", async () => {
    const first = await attach()
    await say(first, "please [read]")
    await first.shows("It says something to read.")
    const shown = ["please [read]", "→ Read README.md", "It says something to read."]
    const second = await attachTo((await newest()).id, [...shown, /Build · Main Scripted/])
    await say(second, "please [hold]")
    await Promise.all([first, second].map((terminal) => terminal.shows(["please [hold]", "I begin and wait"])))
    model.release()
    await Promise.all([first, second].map((terminal) => terminal.shows("I begin and wait until now.")))
    await Promise.all([first, second].map(asleep))
  })
  test("after a crash of the server the terminal shows the end of the turn and continues", async () => {
    const terminal = await attach()
    await say(terminal, "please [hold]")
    await terminal.shows(["I begin and wait", "esc interrupt"])
    await baton.kill()
    await baton.begin()
    await asleep(terminal)
    await say(terminal, "now [hello]")
    await terminal.shows("Hello from the scripted model.")
  })

  test("a shell command and a slash command", async () => {
    const terminal = await attach()
    await terminal.type("!")
    await terminal.type("echo from the shell")
    await terminal.press("Enter")
    await terminal.shows(["$ echo from the shell", /┃\s+from the shell/])
    await asleep(terminal)
    await say(terminal, "/greet [think]")
    await terminal.shows(["Then I speak."])
    await asleep(terminal)
  })
})
