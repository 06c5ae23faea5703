// The same scripted scenarios on OpenCode's own server and on Baton, with one model for both: the event streams and the
// records afterwards are equal, except for the differences in `support/differences.mjs`.

import assert from "node:assert/strict"
import { readFile, writeFile } from "node:fs/promises"
import { after, before, describe, test } from "node:test"
import { differences, strip, table } from "./support/differences.mjs"
import { MAIN, Model } from "./support/model.mjs"
import { Normal } from "./support/normal.mjs"
import { OpenCode, startBaton } from "./support/peers.mjs"
import { play } from "./support/scene.mjs"

const reply = (body) => ({
  "permission.asked": ({ call, event }) => call("POST", `/permission/${event.properties.id}/reply`, body),
})
const answer = (...labels) => ({
  "question.asked": ({ call, event }) =>
    call("POST", `/question/${event.properties.id}/reply`, { answers: [labels] }),
})
const dismiss = {
  "question.asked": ({ call, event }) => call("POST", `/question/${event.properties.id}/reject`),
}
const abort = {
  "message.part.delta": ({ call, event, session }) =>
    event.properties.delta.includes("wait") && call("POST", `/session/${session}/abort`),
}

const prompt = (text) => ({ call, session }) =>
  call("POST", `/session/${session}/prompt_async`, { parts: [{ type: "text", text }] })
const summarise = ({ call, session }) =>
  call("POST", `/session/${session}/summarize`, { providerID: "scripted", modelID: MAIN })

// If OpenCode is idle twice, the scene ends at the second idle.
const TWICE = { opencode: 2, baton: 1 }

const SCENES = [
  { name: "words", prompt: "please [hello]" },
  { name: "reasoning, then words", prompt: "please [think]" },
  { name: "a file is read", prompt: "please [read]" },
  { name: "two files are read at once", prompt: "please [parallel]" },
  { name: "a file that is not there", prompt: "please [missing]" },
  { name: "a command", prompt: "please [shell]" },
  { name: "a file is written", prompt: "please [write]" },
  { name: "a file is read and changed", prompt: "please [edit]" },
  { name: "arguments that a tool does not know", prompt: "please [wrong]" },
  { name: "a tool that does not exist", prompt: "please [unknown]" },
  { name: "an answer that is cut", prompt: "please [cut]" },
  { name: "an answer that is filtered", prompt: "please [filtered]" },
  { name: "a retry", prompt: "please [again]" },
  { name: "a subagent", prompt: "please [task]", children: 1 },
  { name: "a list is kept", prompt: "please [todo]" },
  { name: "a permission, once", prompt: "please [permission]", acts: reply({ reply: "once" }) },
  { name: "a permission, rejected", prompt: "please [permission]", acts: reply({ reply: "reject" }) },
  {
    name: "a permission, rejected with a word",
    prompt: "please [permission]",
    acts: reply({ reply: "reject", message: "Not now" }),
  },
  { name: "a question, answered", prompt: "please [question]", acts: answer("Green") },
  { name: "a question, dismissed", prompt: "please [question]", acts: dismiss },
  { name: "an abort while words stream", prompt: "please [hold]", acts: abort, ends: TWICE },
  { name: "two prompts, one after the other", prompt: "please [hello]", then: [prompt("please [read]")] },
  { name: "a summary", prompt: "please [hello]", then: [summarise] },
  { name: "a prompt after a summary", prompt: "please [hello]", then: [summarise, prompt("please [read]")] },
  { name: "a refusal by the provider", prompt: "please [refused]", ends: TWICE },
]

describe("Baton beside OpenCode", () => {
  let model, baton, real
  const used = new Set()
  before(async () => {
    model = await Model.start()
    ;[baton, real] = await Promise.all([startBaton(model), OpenCode.start(model)])
  })
  after(async () => {
    await Promise.all([baton?.stop(), real?.stop()])
    await model?.stop()
  })

  const seen = async (side, server, { ends, ...scene }) => {
    const record = await play(server, { ...scene, ends: ends?.[side] })
    const normal = new Normal(server.world.root)
    // The record first, because it is in order, so that equal values get equal names.
    const named = ({ messages, session, events, global }) => ({
      messages: normal.of(messages),
      session: normal.of(session),
      events: normal.of(events),
      global: normal.of(global),
    })
    const [parent, ...children] = [record, ...record.children].map((one) => named(strip(side, one, used)))
    return { ...parent, children }
  }
  const judge = (ours, theirs, whose) => {
    assert.deepEqual(ours.messages, theirs.messages, `the messages of ${whose} afterwards (Baton: +, OpenCode: -)`)
    assert.deepEqual(ours.session, theirs.session, `${whose} afterwards (Baton: +, OpenCode: -)`)
    assert.deepEqual(ours.events, theirs.events, `the events of ${whose} (Baton: +, OpenCode: -)`)
    assert.deepEqual(ours.global, theirs.global, `those on /global/event of ${whose} (Baton: +, OpenCode: -)`)
  }

  for (const scene of SCENES) {
    test(scene.name, async () => {
      const [theirs, ours] = await Promise.all([seen("opencode", real, scene), seen("baton", baton, scene)])
      judge(ours, theirs, "the session")
      assert.equal(ours.children.length, scene.children ?? 0)
      assert.equal(theirs.children.length, ours.children.length)
      ours.children.forEach((child, at) => judge(child, theirs.children[at], "the child"))
    })
  }

  test("every allowed difference still exists", () => {
    const stale = differences.filter(({ id, sometimes }) => !used.has(id) && !sometimes)
    assert.deepEqual(stale.map(({ id }) => id), [], "take these out of support/differences.mjs")
  })
})

test("docs/compatibility.md shows the list", async () => {
  const page = new URL("../../docs/compatibility.md", import.meta.url)
  const text = await readFile(page, "utf8")
  const [begin, end] = ["<!-- differences: begin -->\n", "<!-- differences: end -->"]
  const [head, rest] = text.split(begin)
  assert.ok(rest?.includes(end), "docs/compatibility.md has no place for the list")
  const wanted = head + begin + table() + "\n" + rest.slice(rest.indexOf(end))
  if (process.env.BATON_UPDATE) await writeFile(page, wanted)
  else assert.equal(text, wanted, "run `BATON_UPDATE=1 cargo xtask peers compare.test.mjs`")
})
