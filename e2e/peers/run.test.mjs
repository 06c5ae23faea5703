// `opencode run --attach`: OpenCode's command line exits exactly when the turn has ended, and prints the same with Baton as
// with its own server.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { Model } from "./support/model.mjs"
import { OpenCode, run, startBaton } from "./support/peers.mjs"

// Removes colours and carriage returns.
const plain = (text) => text.replaceAll(/\x1b\[[0-9;]*m/g, "").replaceAll(/\r/g, "")

// True if a client has an event stream.
const isFollowed = async (baton) => /^baton_subscribers [1-9]/m.test(await (await baton.fetch("/metrics")).text())

describe("opencode run --attach", () => {
  let model, baton, real
  before(async () => {
    model = await Model.start()
    ;[baton, real] = await Promise.all([startBaton(model), OpenCode.start(model)])
  })
  after(async () => {
    await Promise.all([baton?.stop(), real?.stop()])
    await model?.stop()
  })

  const attach = async (server, ...args) => {
    const { code, stdout, stderr } = await run(server.world, ["run", "--attach", server.url, ...args])
    return { code, stdout: plain(stdout), stderr: plain(stderr) }
  }

  for (const [scenario, stdout, stderr] of [
    ["hello", "Hello from the scripted model.", /build · main/],
    ["read", "Let me look.\nIt says something to read.", /Read README\.md/],
    ["shell", "Counted.", /echo one two three/],
    ["permission", "", /permission requested: bash \(touch asked\.txt\); auto-rejecting/],
    ["missing", "It is not there.", /nowhere\.txt/],
    ["refused", "", /scripted refusal/],
  ]) {
    test(`[${scenario}] ends with the same words and the same exit code`, async () => {
      const [ours, theirs] = await Promise.all([baton, real].map((server) => attach(server, `please [${scenario}]`)))
      assert.equal(ours.stdout.trim(), stdout)
      assert.match(ours.stderr, stderr)
      assert.equal(theirs.stdout.trim(), stdout, "OpenCode's own server")
      assert.equal(ours.code, theirs.code, `exit codes\nBaton: ${ours.stderr}\nOpenCode: ${theirs.stderr}`)
    })
  }

  test("it waits for a turn that is still running", async () => {
    let ended = false
    const running = attach(baton, "please [hold]").finally(() => (ended = true))
    while (!model.isHolding && !ended) await new Promise((resolve) => setImmediate(resolve))
    // It prompts before its event stream is open, and does not show text from before that.
    while (!ended && !(await isFollowed(baton))) await new Promise((resolve) => setImmediate(resolve))
    const status = await (await baton.fetch("/session/status")).json()
    assert.deepEqual(Object.values(status), [{ type: "busy" }])
    assert.equal(ended, false)
    model.release()
    const { code, stdout } = await running
    assert.equal(stdout.trim(), "I begin and wait until now.")
    assert.equal(code, 0)
  })

  test("it continues the previous session", async () => {
    await attach(baton, "please [hello]")
    const { code, stdout } = await attach(baton, "--continue", "please [read]")
    assert.equal(code, 0)
    assert.match(stdout, /It says something to read\./)
    const [newest] = await (await baton.fetch("/session")).json()
    const messages = await (await baton.fetch(`/session/${newest.id}/message`)).json()
    assert.equal(messages.filter(({ info }) => info.role === "user").length, 2)
  })

  test("as JSON it prints the parts as they end", async () => {
    const { code, stdout } = await attach(baton, "--format", "json", "please [read]")
    const types = stdout.trim().split("\n").map((line) => JSON.parse(line).type)
    assert.equal(code, 0)
    assert.deepEqual(types.filter((type) => type !== "step_start" && type !== "step_finish"), ["text", "tool_use", "text"])
  })

  test("a provider that does not exist is an error", async () => {
    const { code, stdout, stderr } = await attach(baton, "--model", "nobody/nothing", "please [hello]")
    assert.equal(stdout.trim(), "")
    assert.match(stderr, /nobody/)
    assert.equal(code, 1)
  })
})
