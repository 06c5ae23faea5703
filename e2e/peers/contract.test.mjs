// Baton's answers against OpenCode's own OpenAPI document: the test calls every operation that Baton supports, and each
// answer must fit the document.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { operations, parameters } from "../support/methods.mjs"
import { ask, clients, ok } from "../support/sdk.mjs"
import { Baton } from "../support/server.mjs"
import { Model } from "./support/model.mjs"
import { OpenCode } from "./support/peers.mjs"
import { misfit } from "./support/schema.mjs"

const METHODS = ["get", "post", "put", "patch", "delete"]
// Operations that end or delete something run last.
const isLast = ({ operationId }) => /dispose|upgrade/.test(operationId)
// These operations wait until there is an event to return.
const WAITING = new Set(["tui.control.next"])
const CALL_MS = 20_000

describe("OpenCode's document", () => {
  let model, real, baton, document
  before(async () => {
    model = await Model.start()
    ;[real, baton] = await Promise.all([OpenCode.start(model), Baton.start()])
    document = await (await real.fetch("/doc")).json()
  })
  after(async () => {
    await Promise.all([real?.stop(), baton?.stop()])
    await model?.stop()
  })

  // A new session with an answer for each call, because some calls delete it.
  async function prepare() {
    const sdk = new Map(clients).get("v1")(baton)
    const { id: sessionID } = await ok(sdk.create())
    const { info, parts } = await ok(sdk.prompt(sessionID, ask("simple")))
    const part = parts.find(({ type }) => type === "text")
    return { sessionID, messageID: info.id, partID: part.id, part, directory: baton.directory }
  }

  async function call(operation) {
    const { path, query, body } = parameters(operation, operation, await prepare())
    const target = operation.path.replaceAll(/\{([^}]*)\}/g, (_, name) => encodeURIComponent(path[name]))
    const init = { method: operation.method.toUpperCase(), signal: AbortSignal.timeout(CALL_MS) }
    if (body) Object.assign(init, { body: JSON.stringify(body), headers: { "content-type": "application/json" } })
    return baton.fetch(`${target}?${new URLSearchParams(query)}`, init)
  }

  // Returns the fault of an answer, if there is one. Counts the answers that have a schema.
  async function judge(operation, counts) {
    const response = await call(operation)
    const kind = (response.headers.get("content-type") ?? "").split(";")[0]
    const theirs = document.paths[operation.path][operation.method].responses[response.status]
    if (kind === "text/event-stream") {
      await response.body.cancel()
      return response.ok ? undefined : "a stream that failed"
    }
    const answer = await response.text()
    if (!theirs) return response.ok ? `${response.status} is not in the document` : undefined
    const schema = theirs.content?.["application/json"]?.schema
    if (!schema || kind !== "application/json") return undefined
    // Other tests check refusals; here the call only named something that does not exist.
    if (!response.ok) return undefined
    counts.compared += 1
    return misfit(document, schema, JSON.parse(answer))
  }

  test("describes every answer of Baton", async (t) => {
    const all = Object.entries(document.paths).flatMap(([path, methods]) =>
      METHODS.filter((method) => methods[method]).map((method) => ({ method, path })),
    )
    const known = [...(await operations()).values()]
    const ours = await (await baton.fetch("/doc")).json()
    const isClaimed = ({ method, path }) => {
      const claimed = ours.paths[path]?.[method]
      return claimed && !claimed.responses[501]
    }
    const missing = all.filter((one) => !known.some(({ method, path }) => method === one.method && path === one.path))
    assert.deepEqual(missing, [], "the copy of the contract in crates/server/tests/fixtures is older than OpenCode")
    const claimed = known.filter(isClaimed)
    t.diagnostic(`${claimed.length} of ${all.length} operations are claimed`)
    const [wrong, counts] = [[], { compared: 0 }]
    for (const operation of [...claimed.filter((it) => !isLast(it)), ...claimed.filter(isLast)]) {
      if (WAITING.has(operation.operationId)) continue
      const why = await judge(operation, counts)
      if (why) wrong.push(`${operation.operationId}: ${why}`)
    }
    t.diagnostic(`${counts.compared} answers were compared with OpenCode's schemas`)
    assert.deepEqual(wrong, [])
    assert.ok(counts.compared >= 60, "hardly anything was compared")
  })

  test("a wrong answer fails the check", async () => {
    const { schema } = document.paths["/session"].get.responses[200].content["application/json"]
    const sessions = await (await baton.fetch("/session")).json()
    assert.equal(misfit(document, schema, sessions), undefined)
    const [{ title, ...rest }] = sessions
    assert.match(misfit(document, schema, [rest]), /title is missing/)
    assert.match(misfit(document, schema, [{ ...rest, title: 7 }]), /title: 7 is no string/)
    assert.match(misfit(document, schema, [{ ...rest, title, id: "nonsense" }]), /id: nonsense/)
  })
})
