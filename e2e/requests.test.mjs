// Requests of an agent to the user: permissions and questions.

import assert from "node:assert/strict"
import { existsSync } from "node:fs"
import { after, before, describe, test } from "node:test"
import { ask, clients, ok, refused, textOf, v2 } from "./support/sdk.mjs"
import { Baton } from "./support/server.mjs"
import { record } from "./support/stream.mjs"
import { story } from "./support/tape.mjs"

let baton
before(async () => (baton = await Baton.start()))
after(() => baton.stop())

for (const [name, connect] of clients) {
  describe(`permissions with ${name}`, () => {
    let sdk, events
    before(async () => {
      sdk = connect(baton)
      events = await record(sdk.subscribe)
    })
    after(() => events.close())

    const asked = async (scenario) => {
      const { id } = await ok(sdk.create())
      await ok(sdk.promptAsync(id, ask(scenario)))
      return { id, request: (await events.tape.type("permission.asked", id)).properties }
    }
    const ending = (id) => story(events.tape.of(id)).slice(-4)

    test("a permission granted once lets the command run", async () => {
      const { id, request } = await asked("permission")
      assert.match(request.id, /^per_/)
      assert.equal(request.sessionID, id)
      assert.equal(request.permission, "bash")
      assert.ok(request.patterns.length > 0)
      assert.match(request.tool.messageID, /^msg_/)
      assert.deepEqual((await ok(sdk.status()))[id], { type: "busy" }, "a session that waits for the user is busy")
      assert.equal(await ok(sdk.permission(request, "once")), true)
      await events.tape.idle(id)
      const replied = await events.tape.type("permission.replied", id)
      assert.deepEqual(replied.properties, { sessionID: id, requestID: request.id, reply: "once", by: { kind: "client" } })
      assert.ok(existsSync(`${baton.directory}/demo-permission.txt`))
      const tool = (await ok(sdk.messages(id)))[1].parts.find((part) => part.type === "tool")
      assert.equal(tool.callID, request.tool.callID)
      assert.match(tool.state.output, /approved/)
      assert.deepEqual(ending(id).slice(-2), ["IDLE(completed)", "session.idle"])
      await refused(sdk.permission(request, "once"), 404)
    })

    test("a denied permission ends the turn as blocked, and nothing runs", async () => {
      const { id, request } = await asked("permission_two")
      await ok(sdk.permission(request, "reject"))
      await events.tape.idle(id)
      assert.deepEqual(ending(id).slice(-2), ["IDLE(blocked)", "session.idle"])
      const answer = (await ok(sdk.messages(id)))[1]
      assert.equal(answer.info.error, undefined, "a refusal is not a failure")
      for (const tool of answer.parts.filter((part) => part.type === "tool")) {
        assert.equal(tool.state.status, "error")
      }
      for (const file of ["demo-one.txt", "demo-two.txt"]) assert.ok(!existsSync(`${baton.directory}/${file}`), file)
    })

    test("an abort withdraws the request", async () => {
      const { id, request } = await asked("permission")
      await ok(sdk.abort(id))
      await events.tape.type("permission.replied", id)
      await events.tape.idle(id)
      assert.deepEqual(ending(id).slice(-2), ["IDLE(aborted)", "session.idle"])
      await refused(sdk.permission(request, "once"), 404)
    })

    test("a permission request of a child belongs to the child, and the parent stays busy", async () => {
      const { id } = await ok(sdk.create())
      await ok(sdk.promptAsync(id, ask("subagent_permission")))
      const isChild = (event) => event.type === "session.created" && event.properties.info.parentID === id
      const child = (await events.tape.until(isChild, "a child")).properties.info
      const request = (await events.tape.type("permission.asked", child.id)).properties
      assert.deepEqual(await ok(sdk.status()), { [id]: { type: "busy" }, [child.id]: { type: "busy" } })
      await ok(sdk.permission(request, "once"))
      await events.tape.idle(id)
      assert.deepEqual(
        (await ok(sdk.children(id))).map((session) => session.id),
        [child.id],
      )
      const idles = events.tape.events.filter((event) => event.type === "session.idle")
      const order = idles.map((event) => event.properties.sessionID).filter((it) => it === id || it === child.id)
      assert.deepEqual(order, [child.id, id], "each is idle once, the child first")
    })
  })

  describe(`children with ${name}`, () => {
    test("a subagent is a child with separate messages, and never changes its parent's status", async () => {
      const sdk = connect(baton)
      const events = await record(sdk.subscribe)
      const { id } = await ok(sdk.create())
      const answer = await ok(sdk.prompt(id, ask("subagent")))
      await events.tape.idle(id)
      assert.equal(textOf(answer), "My colleague says hello.")
      const [child, ...others] = await ok(sdk.children(id))
      assert.deepEqual(others, [])
      assert.equal(child.parentID, id)
      const [prompt, said] = await ok(sdk.messages(child.id))
      assert.match(textOf(prompt), /say hello from the child/)
      assert.equal(textOf(said), "Hello from the demo model. All is well.")
      const statuses = (session) => story(events.tape.of(session).filter((event) => event.type === "session.status"))
      assert.deepEqual(statuses(id), ["BUSY", "IDLE(completed)"])
      assert.deepEqual(statuses(child.id), ["BUSY", "IDLE(completed)"])
      const tool = (await ok(sdk.messages(id)))[1].parts.find((part) => part.type === "tool")
      assert.equal(tool.tool, "task")
      assert.equal(tool.state.metadata.sessionId, child.id, "clients find the child through the tool")
      const idles = events.tape.events.filter((event) => event.type === "session.idle")
      assert.deepEqual(
        idles.map((event) => event.properties.sessionID),
        [child.id, id],
      )
      await events.close()
    })
  })
}

describe("calls that only v2 has", () => {
  let sdk, events
  before(async () => {
    sdk = v2(baton)
    events = await record(sdk.subscribe)
  })
  after(() => events.close())

  const begin = async (scenario, type) => {
    const { id } = await ok(sdk.create())
    await ok(sdk.promptAsync(id, ask(scenario)))
    return { id, request: (await events.tape.type(type, id)).properties }
  }

  test("pending permissions are listed", async () => {
    const { id, request } = await begin("permission", "permission.asked")
    const listed = await ok(sdk.client.permission.list())
    assert.deepEqual(
      listed.filter((it) => it.sessionID === id),
      [request],
    )
    await ok(sdk.client.permission.reply({ requestID: request.id, reply: "once" }))
    await events.tape.idle(id)
    assert.deepEqual(await ok(sdk.client.permission.list()), [])
    const error = await refused(sdk.client.permission.reply({ requestID: request.id, reply: "once" }), 404)
    assert.equal(error._tag, "PermissionNotFoundError")
    assert.equal(error.requestID, request.id)
  })

  test("the older form of a reply still works", async () => {
    const { id, request } = await begin("permission", "permission.asked")
    const reply = { sessionID: id, permissionID: request.id, response: "reject" }
    assert.equal(await ok(sdk.client.permission.respond(reply)), true)
    await events.tape.idle(id)
    const replied = await events.tape.type("permission.replied", id)
    assert.equal(replied.properties.reply, "reject")
  })

  test("a question is listed, answered, and the answer reaches the model", async () => {
    const { id, request } = await begin("question", "question.asked")
    assert.match(request.id, /^que_/)
    assert.equal(request.questions[0].question, "Which colour do you want?")
    assert.deepEqual(await ok(sdk.client.question.list()), [request])
    assert.equal(await ok(sdk.client.question.reply({ requestID: request.id, answers: [["Blue"]] })), true)
    const replied = await events.tape.type("question.replied", id)
    assert.deepEqual(replied.properties, { sessionID: id, requestID: request.id, answers: [["Blue"]], by: { kind: "client" } })
    await events.tape.idle(id)
    const messages = await ok(sdk.messages(id))
    assert.match(messages[1].parts.find((part) => part.type === "tool").state.output, /Blue/)
    assert.equal(textOf(messages[2]), "A good choice.")
    assert.deepEqual(await ok(sdk.client.question.list()), [])
    const error = await refused(sdk.client.question.reply({ requestID: request.id, answers: [["Red"]] }), 404)
    assert.equal(error._tag, "QuestionNotFoundError")
  })

  test("a question that is dismissed ends the turn as blocked", async () => {
    const { id, request } = await begin("question", "question.asked")
    assert.equal(await ok(sdk.client.question.reject({ requestID: request.id })), true)
    await events.tape.type("question.rejected", id)
    await events.tape.idle(id)
    assert.deepEqual(story(events.tape.of(id)).slice(-2), ["IDLE(blocked)", "session.idle"])
  })

  test("parts can be changed and removed, and messages too", async () => {
    const { id } = await ok(sdk.create())
    const { info, parts } = await ok(sdk.prompt(id, ask("simple")))
    const part = parts.find((it) => it.type === "text")
    const place = { sessionID: id, messageID: info.id, partID: part.id }
    const edited = { ...part, text: "Something else." }

    assert.deepEqual(await ok(sdk.client.part.update({ ...place, part: edited })), edited)
    const isEdited = (event) => event.properties.part?.text === "Something else."
    await events.tape.until(isEdited, "the changed part")
    assert.equal(textOf(await ok(sdk.message(id, info.id))), "Something else.")

    const foreign = { ...edited, messageID: "msg_another" }
    await refused(sdk.client.part.update({ ...place, part: foreign }), 400)

    assert.equal(await ok(sdk.client.part.delete(place)), true)
    const gone = await events.tape.type("message.part.removed", id)
    assert.deepEqual(gone.properties, place)
    assert.equal(textOf(await ok(sdk.message(id, info.id))), "")
    await refused(sdk.client.part.delete(place), 404)

    assert.equal(await ok(sdk.client.session.deleteMessage({ sessionID: id, messageID: info.id })), true)
    const removed = await events.tape.type("message.removed", id)
    assert.deepEqual(removed.properties, { sessionID: id, messageID: info.id })
    await refused(sdk.message(id, info.id), 404)
    assert.equal((await ok(sdk.messages(id))).length, 1)
  })

  test("a message cannot be removed while the session is busy", async () => {
    const { id } = await begin("slow:10000@20", "message.part.delta")
    const [prompt] = await ok(sdk.messages(id))
    const place = { sessionID: id, messageID: prompt.info.id }
    const error = await refused(sdk.client.session.deleteMessage(place), 409)
    assert.equal(error._tag, "SessionBusyError")
    assert.equal(error.sessionID, id)
    await ok(sdk.abort(id))
    assert.equal(await ok(sdk.client.session.deleteMessage(place)), true)
  })

  // The last test, because its approval is permanent.
  test("a permission granted permanently is not requested again", async () => {
    const { id, request } = await begin("permission", "permission.asked")
    await ok(sdk.client.permission.reply({ requestID: request.id, reply: "always" }))
    await events.tape.idle(id)
    await ok(sdk.prompt(id, ask("permission", "again")))
    const asked = events.tape.of(id).filter((event) => event.type === "permission.asked")
    assert.equal(asked.length, 1)
  })
})
