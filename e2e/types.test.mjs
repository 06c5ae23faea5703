// Answers and events compared with the types of the SDK.

import assert from "node:assert/strict"
import { after, before, test } from "node:test"
import { ask, clients, ok, refused, v2 } from "./support/sdk.mjs"
import { Baton } from "./support/server.mjs"
import { listen } from "./support/stream.mjs"
import { misfits } from "./support/types.mjs"

// Baton's additions, which OpenCode's types do not contain.
const OWN_EVENTS = /^(prompt\.|continuation\.|server\.(heartbeat|resync|ready)$|session\.(queue\.updated|seen)$)/
// Operations whose types in the first client are outdated. OpenCode's own answers do not match them either.
const STALE = new Set(["AppAgents", "ProviderList", "SessionTodo"])

let baton
before(async () => (baton = await Baton.start()))
after(() => baton.stop())

for (const [name, connect] of clients) {
  test(`answers match the types of ${name}`, async () => {
    const sdk = connect(baton)
    const answers = []
    const take = async (operation, call, status = 200) => {
      const value = await ok(call)
      if (name === "v1" && STALE.has(operation)) return value
      answers.push({ name: operation, type: `${name}.${operation}Responses[${status}]`, value })
      return value
    }

    const { id } = await take("SessionCreate", sdk.create({ title: "types", metadata: { a: 1 } }))
    const { info } = await take("SessionPrompt", sdk.prompt(id, ask("read_edit")))
    await ok(sdk.prompt(id, ask("todo")))
    await ok(sdk.prompt(id, ask("error_400")))
    await ok(sdk.prompt(id, ask("reasoning")))
    await take("SessionMessages", sdk.messages(id))
    await take("SessionMessage", sdk.message(id, info.id))
    await take("SessionTodo", sdk.todo(id))
    await take("SessionGet", sdk.get(id))
    await take("SessionUpdate", sdk.update(id, { title: "types again" }))
    await take("SessionFork", sdk.fork(id))
    await ok(sdk.prompt(id, ask("subagent")))
    await take("SessionChildren", sdk.children(id))
    await take("SessionList", sdk.list())
    await ok(sdk.promptAsync(id, ask("slow:10000@20")))
    await take("SessionStatus", sdk.status())
    await take("SessionAbort", sdk.abort(id))
    await take("SessionDelete", sdk.remove(id))
    await take("ConfigGet", sdk.config())
    await take("ConfigProviders", sdk.configProviders())
    await take("ProviderList", sdk.providers())
    await take("AppAgents", sdk.agents())
    await take("PathGet", sdk.path())
    await take("ProjectList", sdk.projects())
    await take("ProjectCurrent", sdk.project())
    if (name === "v2") {
      const { client } = sdk
      await take("GlobalHealth", client.global.health())
      await take("PermissionList", client.permission.list())
      await take("QuestionList", client.question.list())
    }
    const missing = await refused(sdk.get(id), 404)
    answers.push({ name: "SessionGet, refused", type: `${name}.NotFoundError`, value: missing })
    const { id: other } = await ok(sdk.create())
    const bad = await refused(sdk.prompt(other, { parts: "words" }), 400)
    answers.push({ name: "SessionPrompt, refused", type: `${name}.BadRequestError`, value: bad })

    assert.deepEqual(await misfits(answers), [])
  })
}

test("events match the types of v2", async () => {
  const sdk = v2(baton)
  const events = await listen(baton)
  for (const scenario of ["read_edit", "reasoning", "todo", "subagent", "error_400", "bad_tool", "content_filter"]) {
    const { id } = await ok(sdk.create())
    await ok(sdk.prompt(id, ask(scenario)))
  }
  const { id } = await ok(sdk.create())
  await ok(sdk.promptAsync(id, ask("permission")))
  const permission = (await events.tape.type("permission.asked", id)).properties
  const permissions = await ok(sdk.client.permission.list())
  await ok(sdk.permission(permission, "once"))
  await events.tape.idle(id)
  await ok(sdk.promptAsync(id, ask("question")))
  const question = (await events.tape.type("question.asked", id)).properties
  const questions = await ok(sdk.client.question.list())
  await ok(sdk.client.question.reply({ requestID: question.id, answers: [["Red"]] }))
  await events.tape.idle(id, 2)
  await ok(sdk.promptAsync(id, ask("retry_429")))
  const isRetry = (event) => event.properties?.status?.type === "retry"
  await events.tape.until(isRetry, "a retry")
  const statuses = await ok(sdk.status())
  await ok(sdk.remove(id))
  await events.tape.type("session.deleted", id)
  await events.close()

  const answers = [
    { name: "PermissionList", type: "v2.PermissionListResponses[200]", value: permissions },
    { name: "QuestionList", type: "v2.QuestionListResponses[200]", value: questions },
    { name: "SessionStatus", type: "v2.SessionStatusResponses[200]", value: statuses },
  ]
  for (const event of events.tape.events) {
    if (!OWN_EVENTS.test(event.type)) answers.push({ name: event.type, type: "v2.Event", value: event })
  }
  assert.deepEqual(await misfits(answers), [])
})
