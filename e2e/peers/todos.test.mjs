// A model that stops with an open todo: OpenCode becomes idle; Baton asks the model to continue, and becomes idle when the
// work is done. In both it is one turn with one idle.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { Model } from "./support/model.mjs"
import { OpenCode, startBaton } from "./support/peers.mjs"
import { play } from "./support/scene.mjs"

describe("a model that stops with an open todo", () => {
  let model, ours, theirs
  before(async () => {
    model = await Model.start()
    ;[ours, theirs] = await Promise.all([startBaton(model), OpenCode.start(model)])
  })
  after(async () => {
    await Promise.all([ours?.stop(), theirs?.stop()])
    await model?.stop()
  })

  const words = ({ messages }) =>
    messages.flatMap(({ info, parts }) => (info.role === "assistant" ? parts : [])).filter(({ type }) => type === "text").map(({ text }) => text)
  const list = ({ events }) => events.findLast(({ type }) => type === "todo.updated").properties.todos.map(({ status }) => status)
  const count = ({ events }, wanted) => events.filter(({ type }) => type === wanted).length
  const statuses = ({ events }) => events.filter(({ type }) => type === "session.status").map(({ properties }) => properties.status.type)

  test("is not continued by OpenCode, and finishes its work within the same turn in Baton", async () => {
    const [mine, other] = await Promise.all([ours, theirs].map((server) => play(server, { prompt: "please [unfinished]" })))
    assert.deepEqual([words(other), list(other)], [["Planned."], ["pending"]])
    assert.deepEqual([words(mine), list(mine)], [["Planned.", "All done."], ["completed"]])

    for (const scene of [mine, other]) assert.equal(count(scene, "session.idle"), 1)
    // The first idle is also the last: nothing came between the two halves of the work.
    assert.deepEqual(statuses(mine).filter((status) => status === "idle"), ["idle"])
    assert.equal(statuses(mine).at(-1), "idle")

    const [, told] = mine.messages.filter(({ info }) => info.role === "user")
    const [part] = told.parts
    assert.equal(told.info.continues, mine.messages[0].info.id)
    assert.deepEqual(part.metadata.continuation, { source: "todo", episode: mine.messages[0].info.id, n: 1 })
    assert.equal(part.synthetic, true)
    assert.deepEqual([count(mine, "continuation.started"), count(mine, "continuation.stopped")], [1, 0])
    assert.equal(other.messages.filter(({ info }) => info.role === "user").length, 1)
  })
})
