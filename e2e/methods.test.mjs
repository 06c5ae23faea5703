// Every method of OpenCode's SDK, called once: it works, or it is refused with an error that a client
// understands.

import assert from "node:assert/strict"
import { test } from "node:test"
import { flat, methods, operations, parameters, typeNames } from "./support/methods.mjs"
import { ask, clients, ok } from "./support/sdk.mjs"
import { Baton } from "./support/server.mjs"
import { misfits } from "./support/types.mjs"
import { within } from "./support/wait.mjs"

const CALL_MS = 20_000
// These wait until there is an event to return.
const WAITING = new Set(["tui.control.next"])
const WAITED_MS = 500
// Methods that end something run last.
const isLast = ({ name }) => /dispose|upgrade/.test(name)
const NOWHERE = /^There is nothing at /

// Operations whose types in the first client are outdated. OpenCode's own answers do not match them either.
const STALE = new Set(["app.agents", "provider.list", "session.shell", "session.todo", "vcs.get"])

// The response type that a client declares for an operation, if it has one of that name.
function answerType(client, { operationId, success }) {
  if (!operationId || success !== 200 || (client === "v1" && STALE.has(operationId))) return undefined
  const words = operationId.split(/[._]/).map((word) => word[0].toUpperCase() + word.slice(1))
  const name = `${words.join("")}Responses`
  return typeNames(client).has(name) ? `${client}.${name}[200]` : undefined
}

// The outcome of a call, for the table.
function judge({ response, data, error }) {
  const { status } = response
  const type = response.headers.get("content-type") ?? ""
  if (/html/.test(type)) return "WRONG: a page"
  if (response.ok) return status === 204 || data !== undefined ? "ok" : "WRONG: nothing"
  const isTyped = typeof error === "object" && error !== null && (error._tag || (error.name && error.data))
  if (!isTyped) return `WRONG: ${status} without a type`
  if (status === 501) return "not built"
  if (NOWHERE.test(error.data?.message ?? "") || status === 405) return "no such route"
  if (status === 500) return `WRONG: ${JSON.stringify(error)}`
  return `refused: ${status} ${error._tag ?? error.name}`
}

async function attempt(client, method, args) {
  const controller = new AbortController()
  const options = { signal: controller.signal, sseMaxRetryAttempts: 1 }
  try {
    const call = client === "v1" ? method.call({ ...args, ...options }) : method.call(...flat(method, args), options)
    if (WAITING.has(method.name)) {
      const waited = new Promise((resolve) => setTimeout(resolve, WAITED_MS, "ok (it waits)"))
      return { outcome: await Promise.race([call.then(judge), waited]) }
    }
    const result = await within(CALL_MS, call, method.name)
    if (!method.isStream) return { outcome: judge(result), value: result.response.ok ? result.data : undefined }
    const first = await within(CALL_MS, result.stream.next(), `the first event of ${method.name}`)
    return { outcome: first.done ? "no such route" : "ok (it streams)" }
  } catch (error) {
    return { outcome: `WRONG: ${error.message}` }
  } finally {
    controller.abort()
  }
}

// A fresh session with an answer for each call, because some calls delete it.
async function prepare(baton, sdk) {
  const { id: sessionID } = await ok(sdk.create())
  const { info, parts } = await ok(sdk.prompt(sessionID, ask("simple")))
  const part = parts.find(({ type }) => type === "text")
  return { sessionID, messageID: info.id, partID: part.id, part, directory: baton.directory }
}

for (const [name, connect] of clients) {
  test(`every method of ${name} is answered`, async (t) => {
    const baton = await Baton.start()
    const sdk = connect(baton)
    const contract = await operations()
    const all = methods(sdk.client)
    const [outcomes, answers] = [[], []]
    for (const method of [...all.filter((method) => !isLast(method)), ...all.filter(isLast)]) {
      const shape = `${method.method} ${method.path.replaceAll(/\{[^}]*\}/g, "{}")}`
      const operation = contract.get(shape) ?? { path: method.path }
      const known = /sessionID|\{id\}/.test(operation.path + method.path) || operation.body ? await prepare(baton, sdk) : {}
      const args = parameters(method, operation, { directory: baton.directory, ...known })
      const { outcome, value } = await attempt(name, method, args)
      const type = answerType(name, operation)
      if (type && value !== undefined && outcome === "ok") answers.push({ name: method.name, type, value })
      outcomes.push({ method: method.name, call: `${method.method.toUpperCase()} ${method.path}`, outcome })
    }
    print(t, outcomes)
    const isRefused = refusals(await (await baton.fetch("/doc")).json())
    await baton.stop()
    assert.ok(all.length >= (name === "v1" ? 70 : 180), `only ${all.length} methods were found`)
    assert.deepEqual(outcomes.filter(({ outcome }) => /^WRONG|^no such route/.test(outcome)), [])
    // Operations that are not available say so, and only those that the document marks as such.
    const surprising = outcomes.filter(({ call, outcome }) => isRefused(call) !== (outcome === "not built"))
    assert.deepEqual(surprising, [])
    assert.deepEqual(await misfits(answers), [])
  })
}

// Returns true for calls that the document marks as not available.
function refusals({ paths }) {
  const nameless = (call) => call.replaceAll(/\{[^}]*\}/g, "{}")
  const calls = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { responses }]) => responses[501])
      .map(([method]) => nameless(`${method.toUpperCase()} ${path}`)),
  )
  const refused = new Set(calls)
  return (call) => refused.has(nameless(call))
}

function print(t, outcomes) {
  const width = (key) => Math.max(...outcomes.map((row) => row[key].length))
  const [method, call] = [width("method"), width("call")]
  for (const row of outcomes) t.diagnostic(`${row.method.padEnd(method)}  ${row.call.padEnd(call)}  ${row.outcome}`)
  const counts = new Map()
  for (const { outcome } of outcomes) {
    const kind = outcome.split(/[:(]/)[0].trim()
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
  }
  t.diagnostic([...counts].map(([kind, count]) => `${count} ${kind}`).join(", "))
}
