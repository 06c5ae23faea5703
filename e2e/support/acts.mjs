// The actions of clients in each recorded scenario. Acts that are not scenarios of the demo model have the names and the
// calls of OpenCode's recordings, so that the two can be compared.

import assert from "node:assert/strict"
import { ask, ok, refused } from "./sdk.mjs"
import { sessionOf, story } from "./tape.mjs"

// The timeout of a scenario. The longest one, `error_500_forever`, waits five times, a minute in all.
const PATIENCE_MS = 150_000
// A text that continues until a client aborts it.
const ENDLESS = "slow:10000@20"

// Sends a prompt, and answers all requests until the session is idle.
async function prompt(scene, model, text) {
  const { sdk, tape, id } = scene
  const turns = idles(scene)
  await ok(sdk.promptAsync(id, ask(model, text)))
  await answerUntilIdle(scene, turns + 1)
}

async function answerUntilIdle({ sdk, tape, id }, count, reply = "once") {
  const seen = new Set()
  let idle = 0
  for await (const { type, properties } of tape.follow({ ms: PATIENCE_MS })) {
    if (type === "session.idle" && properties.sessionID === id && ++idle === count) return
    // In a replayed recording a request may occur twice, or be answered already.
    if (!/\.asked$/.test(type) || seen.has(properties.id)) continue
    seen.add(properties.id)
    if (type === "permission.asked") await sdk.client.permission.reply({ requestID: properties.id, reply })
    if (type === "question.asked") {
      const answers = properties.questions.map((question) => [question.options[0].label])
      await sdk.client.question.reply({ requestID: properties.id, answers })
    }
  }
}

const idles = ({ tape, id }) => tape.of(id).filter((event) => event.type === "session.idle").length

// Waits until a turn has reached the given word of its story, then aborts it.
async function abortAt(scene, model, word) {
  const { sdk, tape, id } = scene
  await ok(sdk.promptAsync(id, ask(model)))
  await reached(scene, word)
  await ok(sdk.abort(id))
  await tape.idle(id)
}

function reached({ sdk, tape, id }, word) {
  const isThere = (event) => {
    if (event.type === "permission.asked" && word !== "permission.asked") {
      sdk.client.permission.reply({ requestID: event.properties.id, reply: "once" })
    }
    return sessionOf(event) === id && story([event])[0] === word
  }
  return tape.until(isThere, word)
}

// Demo scenarios that need more than a prompt.
const helped = {
  stall: (scene) => abortAt(scene, "stall", "delta"),
  stall_once: (scene) => abortAt(scene, "stall_once", "assistant[-]"),
  long_tool: (scene) => abortAt(scene, "long_tool", "bash:running"),
}

export const play = (scenario) => helped[scenario] ?? ((scene) => prompt(scene, scenario))

// An act that `ends` the server needs its own server.
export const acts = {
  abort: {
    about: "aborts a text; then aborts the idle session; then prompts again",
    run: async (scene) => {
      await abortAt(scene, ENDLESS, "delta")
      await ok(scene.sdk.abort(scene.id))
      await prompt(scene, "simple")
    },
  },
  abort_tool: {
    about: "aborts a command; then aborts the idle session; then prompts again",
    run: async (scene) => {
      await abortAt(scene, "long_tool", "bash:running")
      await ok(scene.sdk.abort(scene.id))
      await prompt(scene, "simple")
    },
  },
  abort_permission: {
    about: "aborts while a permission waits; then answers it, too late",
    run: async (scene) => {
      await abortAt(scene, "permission", "permission.asked")
      const [request] = scene.tape.of(scene.id).filter((event) => event.type === "permission.asked")
      await refused(scene.sdk.client.permission.reply({ requestID: request.properties.id, reply: "once" }), 404)
    },
  },
  abort_queue: {
    about: "aborts while a second prompt waits",
    run: async (scene) => {
      const { sdk, tape, id } = scene
      await ok(sdk.promptAsync(id, ask(ENDLESS, "one")))
      await reached(scene, "delta")
      await ok(sdk.promptAsync(id, ask("simple", "two")))
      await ok(sdk.abort(id))
      await tape.idle(id)
    },
  },
  perm_deny: {
    about: "rejects a permission",
    run: async (scene) => {
      await ok(scene.sdk.promptAsync(scene.id, ask("permission")))
      await answerUntilIdle(scene, 1, "reject")
    },
  },
  perm_always: {
    about: "grants a permission with `always`",
    run: async (scene) => {
      await ok(scene.sdk.promptAsync(scene.id, ask("permission")))
      await answerUntilIdle(scene, 1, "always")
    },
  },
  question_reject: {
    about: "dismisses a question",
    run: async ({ sdk, tape, id }) => {
      await ok(sdk.promptAsync(id, ask("question")))
      const { properties } = await tape.type("question.asked", id)
      await ok(sdk.client.question.reject({ requestID: properties.id }))
      await tape.idle(id)
    },
  },
  queue: {
    about: "sends two more prompts during an answer",
    run: async (scene) => {
      const { sdk, tape, id } = scene
      await ok(sdk.promptAsync(id, ask("slow:150@20", "one")))
      await reached(scene, "delta")
      await ok(sdk.promptAsync(id, ask("simple", "two")))
      await ok(sdk.promptAsync(id, ask("simple", "three")))
      await tape.idle(id)
    },
  },
  multi_turn: {
    about: "prompts three times, each after idle",
    run: async (scene) => {
      for (const text of ["one", "two", "three"]) await prompt(scene, "simple", text)
    },
  },
  blocking_message: {
    about: "prompts with the blocking call `POST /session/{id}/message`",
    run: async ({ sdk, tape, id }) => {
      await ok(sdk.prompt(id, ask("slow:25@20")))
      await tape.idle(id)
    },
  },
  delete_busy: {
    about: "deletes a session that is busy",
    run: async (scene) => {
      const { sdk, tape, id } = scene
      await ok(sdk.promptAsync(id, ask(ENDLESS)))
      await reached(scene, "delta")
      await ok(sdk.remove(id))
      await tape.type("session.deleted", id)
    },
  },
  kill_KILL_text: {
    about: "kills the server in the middle of a text, starts it again, then prompts again",
    ends: true,
    run: (scene) => endAt(scene, ENDLESS, "delta", "kill"),
  },
  kill_KILL_tool: {
    about: "kills the server while a command runs, starts it again, then prompts again",
    ends: true,
    run: (scene) => endAt(scene, "long_tool", "bash:running", "kill"),
  },
  kill_KILL_permission: {
    about: "kills the server while a permission waits, starts it again, then prompts again",
    ends: true,
    run: (scene) => endAt(scene, "permission", "permission.asked", "kill"),
  },
  kill_TERM_text: {
    about: "stops the server in the middle of a text, starts it again, then prompts again",
    ends: true,
    run: (scene) => endAt(scene, ENDLESS, "delta", "shutdown"),
  },
}

async function endAt(scene, model, word, end) {
  const { sdk, baton, tape, id } = scene
  await ok(sdk.promptAsync(id, ask(model)))
  await reached(scene, word)
  await baton[end]()
  await baton.begin()
  await scene.resume()
  await tape.idle(id)
  assert.deepEqual(await ok(sdk.status()), {}, "after a restart no session is busy")
  await prompt(scene, "simple")
}
