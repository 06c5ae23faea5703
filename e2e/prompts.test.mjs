// Prompts and turns through both clients: answers, events on the way, and the end of a turn.

import assert from "node:assert/strict"
import { readFile } from "node:fs/promises"
import { after, before, describe, test } from "node:test"
import { ask, clients, ok, refused, textOf } from "./support/sdk.mjs"
import { Baton } from "./support/server.mjs"
import { record } from "./support/stream.mjs"
import { readTrace } from "./support/traces.mjs"
import { idlePairs, sessionOf, story } from "./support/tape.mjs"

let baton
before(async () => (baton = await Baton.start()))
after(() => baton.stop())

const HELLO = "Hello from the demo model. All is well."

for (const [name, connect] of clients) {
  describe(`prompts with ${name}`, () => {
    let sdk, events
    before(async () => {
      sdk = connect(baton)
      events = await record(sdk.subscribe)
    })
    after(() => events.close())

    const create = async () => (await ok(sdk.create())).id
    const statuses = (id) => story(events.tape.of(id).filter((event) => event.type === "session.status"))
    const permission = async (id) => (await events.tape.type("permission.asked", id)).properties
    // Waits until this many prompts of a session are stored.
    const announced = (id, count) => {
      const prompts = new Set()
      const isLast = (event) => {
        if (sessionOf(event) === id && story([event])[0] === "USER") prompts.add(event.properties.info.id)
        return prompts.size === count
      }
      return events.tape.until(isLast, `prompt number ${count}`)
    }
    // The prompt that each answer belongs to, by position.
    const answered = async (id) => {
      const messages = await ok(sdk.messages(id))
      const prompts = messages.filter(({ info }) => info.role === "user").map(({ info }) => info.id)
      const answers = messages.filter(({ info }) => info.role === "assistant")
      return answers.map(({ info }) => prompts.indexOf(info.parentID))
    }

    test("a blocking prompt returns the answer", async () => {
      const id = await create()
      const { info, parts } = await ok(sdk.prompt(id, ask("simple", "hello")))
      assert.equal(info.role, "assistant")
      assert.equal(info.sessionID, id)
      assert.equal(info.finish, "stop")
      assert.equal(info.error, undefined)
      assert.deepEqual([info.providerID, info.modelID], ["demo", "simple"])
      assert.ok(info.time.completed >= info.time.created)
      assert.ok(info.tokens.output > 0)
      assert.equal(textOf({ parts }), HELLO)
      assert.deepEqual(
        parts.map((part) => part.type),
        ["step-start", "text", "step-finish"],
      )
      const [prompt, answer] = await ok(sdk.messages(id))
      assert.equal(textOf(prompt), "hello")
      assert.deepEqual(answer, { info, parts })
      assert.equal(info.parentID, prompt.info.id)
      assert.deepEqual(await ok(sdk.message(id, info.id)), answer)
      assert.ok(!(id in (await ok(sdk.status()))), "the session is idle when the answer arrives")
    })

    test("an asynchronous prompt is accepted at once and answered by events", async () => {
      const id = await create()
      const { response } = await sdk.promptAsync(id, ask("simple"))
      assert.equal(response.status, 204)
      await events.tape.idle(id)
      const turn = story(events.tape.of(id))
      assert.deepEqual(
        turn.filter((word) => !["session.updated", "delta"].includes(word)),
        [
          "session.created",
          "USER",
          "text(user)",
          "prompt.queued",
          "BUSY",
          "prompt.started",
          "assistant[-]",
          "step-start",
          "text+start",
          "text+end",
          "step-finish(stop)",
          "assistant[stop]",
          "assistant[stop,done]",
          "prompt.ended(completed)",
          "IDLE(completed)",
          "session.idle",
        ],
      )
      const deltas = events.tape.of(id).filter((event) => event.type === "message.part.delta")
      assert.equal(deltas.map((event) => event.properties.delta).join(""), HELLO)
      assert.ok(deltas.every((event) => event.properties.field === "text"))
    })

    for (const scenario of ["simple", "reasoning"]) {
      test(`${scenario}: the events OpenCode sends come in OpenCode's order`, async () => {
        const id = await create()
        await ok(sdk.prompt(id, ask(scenario)))
        await events.tape.idle(id)
        assert.deepEqual(essence(events.tape.of(id)), essence(await readTrace(scenario)))
      })
    }

    test("idle is the last event of a turn and comes once", async () => {
      const id = await create()
      await ok(sdk.prompt(id, ask("read_edit")))
      await events.tape.idle(id)
      // Any further event would arrive before the answer to this call.
      const fence = await create()
      await events.tape.type("session.created", fence)
      const turn = events.tape.of(id)
      assert.equal(turn.at(-1).type, "session.idle")
      assert.equal(idlePairs(turn).get(id), 1)
      assert.deepEqual(statuses(id), ["BUSY", "IDLE(completed)"])
      assert.equal((await answered(id)).length, 3, "one answer for each call of the model")
      const readme = await readFile(`${baton.directory}/README.md`, "utf8")
      assert.match(readme, /Added by the demo\./, "the tools are real")
    })

    test("text can be read while it is streaming", async () => {
      const id = await create()
      await ok(sdk.promptAsync(id, ask("slow:10000@20")))
      const delta = await events.tape.type("message.part.delta", id)
      const { messageID, partID } = delta.properties
      const { info, parts } = await ok(sdk.message(id, messageID))
      assert.equal(info.time.completed, undefined)
      assert.match(parts.find((part) => part.id === partID).text, /^tick /)
      assert.deepEqual((await ok(sdk.status()))[id], { type: "busy" })
      assert.equal(await ok(sdk.abort(id)), true)
    })

    test("an abort ends the turn before it is answered, with one idle and everything closed", async () => {
      const id = await create()
      const waiting = ok(sdk.prompt(id, ask("slow:10000@20")))
      await events.tape.type("message.part.delta", id)
      assert.equal(await ok(sdk.abort(id)), true)
      assert.ok(!(id in (await ok(sdk.status()))))
      await events.tape.idle(id)
      const { info, parts } = await waiting
      assert.equal(info.error.name, "MessageAbortedError")
      assert.ok(info.time.completed)
      assert.ok(parts.find((part) => part.type === "text").time.end)
      assert.deepEqual(story(events.tape.of(id)).slice(-6), [
        "text+end",
        "assistant[-,done,MessageAbortedError]",
        "ERROR(MessageAbortedError)",
        "prompt.ended(aborted)",
        "IDLE(aborted)",
        "session.idle",
      ])
      assert.equal(await ok(sdk.abort(id)), true, "aborting an idle session changes nothing")
      const again = await ok(sdk.prompt(id, ask("simple")))
      assert.equal(textOf(again), HELLO)
      await events.tape.idle(id, 2)
      assert.equal(idlePairs(events.tape.of(id)).get(id), 2)
    })

    test("an abort ends a command and its descendants", async () => {
      const id = await create()
      await ok(sdk.update(id, { permission: [{ permission: "bash", pattern: "*", action: "allow" }] }))
      await ok(sdk.promptAsync(id, ask("long_tool")))
      const isRunning = (event) => sessionOf(event) === id && story([event])[0] === "bash:running"
      await events.tape.until(isRunning, "the command to run")
      await ok(sdk.abort(id))
      await events.tape.idle(id)
      assert.deepEqual(statuses(id), ["BUSY", "IDLE(aborted)"])
      const [, answer] = await ok(sdk.messages(id))
      const { state } = answer.parts.find((part) => part.type === "tool")
      assert.equal(state.status, "error")
      assert.ok(state.time.end)
    })

    test("waiting for a rate limit is a status, and can be aborted", async () => {
      const id = await create()
      await ok(sdk.promptAsync(id, ask("retry_429")))
      const isRetry = (event) => sessionOf(event) === id && story([event])[0] === "RETRY1"
      const { status } = (await events.tape.until(isRetry, "the first retry")).properties
      assert.equal(status.message, "Rate limit exceeded")
      assert.ok(status.next > Date.now() - 60_000)
      assert.deepEqual((await ok(sdk.status()))[id], status)
      await ok(sdk.abort(id))
      await events.tape.idle(id)
      assert.deepEqual(statuses(id), ["BUSY", "RETRY1", "IDLE(aborted)"])
    })

    test("a provider that refuses ends the turn as an error, with one idle", async () => {
      const id = await create()
      const { info } = await ok(sdk.prompt(id, ask("error_400")))
      assert.equal(info.error.name, "APIError")
      assert.equal(info.error.data.statusCode, 400)
      await events.tape.idle(id)
      assert.deepEqual(story(events.tape.of(id)).slice(-5), [
        "assistant[-,done,APIError]",
        "ERROR(APIError)",
        "prompt.ended(error)",
        "IDLE(error)",
        "session.idle",
      ])
    })

    test("a prompt sent while a tool works joins at the next step", async () => {
      const id = await create()
      await ok(sdk.promptAsync(id, ask("permission", "first")))
      const request = await permission(id)
      await ok(sdk.promptAsync(id, ask("simple", "[[scenario:simple]] second", { delivery: "steer" })))
      await ok(sdk.permission(request, "once"))
      await events.tape.idle(id)
      assert.deepEqual(await answered(id), [0, 1], "the second step answers the second prompt")
      assert.equal(idlePairs(events.tape.of(id)).get(id), 1)
    })

    test("a prompt with delivery `queue` is answered separately, before idle", async () => {
      const id = await create()
      await ok(sdk.promptAsync(id, ask("permission", "first")))
      const request = await permission(id)
      await ok(sdk.promptAsync(id, ask("simple", "[[scenario:simple]] last", { delivery: "queue" })))
      await ok(sdk.promptAsync(id, ask("simple", "[[scenario:simple]] in between")))
      await ok(sdk.permission(request, "once"))
      await events.tape.idle(id)
      assert.deepEqual(await answered(id), [0, 2, 1], "without a delivery a prompt joins")
      assert.deepEqual(statuses(id), ["BUSY", "IDLE(completed)"])
    })

    test("prompts sent during an answer are each answered, in order, before idle", async () => {
      const id = await create()
      await ok(sdk.promptAsync(id, ask("slow:150@20", "one")))
      await events.tape.type("message.part.delta", id)
      const second = sdk.prompt(id, ask("simple", "two"))
      await announced(id, 2)
      const third = sdk.prompt(id, ask("simple", "three"))
      const answers = [await ok(second), await ok(third)]
      await events.tape.idle(id)
      assert.deepEqual(await answered(id), [0, 1, 2])
      assert.deepEqual(statuses(id), ["BUSY", "IDLE(completed)"])
      const messages = await ok(sdk.messages(id))
      const prompts = messages.filter(({ info }) => info.role === "user")
      assert.deepEqual(
        answers.map(({ info }) => info.parentID),
        prompts.slice(1).map(({ info }) => info.id),
        "each blocking call gets its own answer",
      )
    })

    test("an abort ends the waiting prompts with an event each", async () => {
      const id = await create()
      await ok(sdk.promptAsync(id, ask("slow:10000@20", "one")))
      await events.tape.type("message.part.delta", id)
      await ok(sdk.promptAsync(id, ask("simple", "two", { delivery: "queue" })))
      await ok(sdk.abort(id))
      await events.tape.idle(id)
      const words = story(events.tape.of(id))
      assert.equal(words.filter((word) => word === "prompt.ended(aborted)").length, 2)
      assert.equal(words.filter((word) => word === "session.idle").length, 1)
      assert.deepEqual(await answered(id), [0])
    })

    test("the same messageID is accepted once", async () => {
      const id = await create()
      const messageID = `msg_chosen_by_${name}`
      const first = await ok(sdk.prompt(id, ask("simple", "once", { messageID })))
      const again = await ok(sdk.prompt(id, ask("simple", "once", { messageID })))
      assert.deepEqual(again, first)
      const { response } = await sdk.promptAsync(id, ask("simple", "once", { messageID }))
      assert.equal(response.status, 204)
      const messages = await ok(sdk.messages(id))
      assert.deepEqual(
        messages.map(({ info }) => info.id),
        [messageID, first.info.id],
      )
      assert.equal(messages[0].parts.length, 1)
      assert.equal(idlePairs(events.tape.of(id)).get(id), 1)
    })

    test("an empty prompt begins a turn that ends", async () => {
      const id = await create()
      for (const parts of [[], [{ type: "text", text: "" }]]) {
        const { info } = await ok(sdk.prompt(id, { ...ask("simple"), parts }))
        assert.equal(info.finish, "stop")
      }
      assert.deepEqual(await answered(id), [0, 1])
    })

    test("a message without a reply is stored and nothing runs", async () => {
      const id = await create()
      const { info, parts } = await ok(sdk.prompt(id, ask("simple", "a note", { noReply: true })))
      assert.equal(info.role, "user")
      assert.equal(textOf({ parts }), "a note")
      assert.deepEqual(statuses(id), [])
      assert.equal((await ok(sdk.messages(id))).length, 1)
    })

    test("messages come in pages, newest page first, oldest message first within one", async () => {
      const id = await create()
      for (const text of ["a", "b", "c", "d", "e"]) await ok(sdk.prompt(id, ask("simple", text, { noReply: true })))
      const all = await ok(sdk.messages(id))
      assert.deepEqual(all.map(textOf), ["a", "b", "c", "d", "e"])
      const pages = []
      let before
      do {
        const { data, response } = await sdk.messages(id, before ? { limit: 2, before } : { limit: 2 })
        pages.push(data.map(textOf))
        before = response.headers.get("x-next-cursor")
        const link = response.headers.get("link")
        if (before) assert.match(link, /^<[^>]+>; ?rel="next"$/)
        else assert.equal(link, null)
      } while (before)
      assert.deepEqual(pages, [["d", "e"], ["b", "c"], ["a"]])
      await refused(sdk.messages(id, { before: "eyJpZCI6IngifQ" }), 400)
    })

    test("the todo list of an agent can be read", async () => {
      const id = await create()
      assert.deepEqual(await ok(sdk.todo(id)), [])
      await ok(sdk.prompt(id, ask("todo")))
      const todos = [
        { content: "First thing", status: "completed", priority: "high" },
        { content: "Second thing", status: "in_progress", priority: "medium" },
        { content: "Third thing", status: "pending", priority: "low" },
      ]
      assert.deepEqual((await events.tape.type("todo.updated", id)).properties.todos, todos)
      assert.deepEqual(await ok(sdk.todo(id)), todos)
    })

    test("invalid prompts are refused, and nothing is stored", async () => {
      const id = await create()
      const text = [{ type: "text", text: "hello" }]
      for (const body of [
        {},
        { parts: "hello" },
        { parts: [{ type: "text" }] },
        { parts: [{ type: "surprise", text: "hello" }] },
        { parts: text, model: "demo/simple" },
        { parts: text, model: { providerID: "demo" } },
        { parts: text, model: { providerID: "demo", modelID: "no_such_scenario" } },
        { parts: text, model: { providerID: "nobody", modelID: "nothing" } },
        { parts: text, agent: "nobody" },
        { parts: text, messageID: "not-a-message-id" },
      ]) {
        for (const call of [sdk.prompt, sdk.promptAsync]) {
          const error = await refused(call(id, body), 400)
          assert.equal(error.name, "BadRequest", JSON.stringify(body))
          assert.ok(error.data.message, JSON.stringify(body))
        }
      }
      assert.deepEqual(await ok(sdk.messages(id)), [])
      assert.deepEqual(statuses(id), [])
    })
  })
}

// Events of a turn that both servers send: without those that OpenCode repeats (busy, the prompt), those
// without a fixed time, and those that only one of them has.
function essence(events) {
  const turn = story(events.filter((event) => sessionOf(event)))
  const kept = turn
    .map((word) => (word.startsWith("IDLE") ? "IDLE" : word))
    .filter((word) => !/^(session\.(created|updated|diff)|prompt\.)/.test(word))
  const end = kept.indexOf("session.idle") + 1
  const isAgain = (word, index) => ["BUSY", "USER"].includes(word) && kept.indexOf(word) < index
  return kept.slice(0, end).filter((word, index) => word !== "delta" && !isAgain(word, index))
}
