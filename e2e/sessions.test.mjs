// Sessions through both clients of the SDK: create, find, change, fork, delete.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { ask, clients, ok, refused, textOf } from "./support/sdk.mjs"
import { Baton } from "./support/server.mjs"
import { record } from "./support/stream.mjs"

let baton
before(async () => (baton = await Baton.start()))
after(() => baton.stop())

for (const [name, connect] of clients) {
  describe(`sessions with ${name}`, () => {
    let sdk, events
    before(async () => {
      sdk = connect(baton)
      events = await record(sdk.subscribe)
    })
    after(() => events.close())

    test("a new session has the fields that clients show, and an event announces it", async () => {
      const session = await ok(sdk.create())
      assert.match(session.id, /^ses_[0-9a-f]{12}[0-9A-Za-z]{14}$/)
      assert.match(session.title, /^New session - \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      assert.equal(session.directory, baton.directory)
      assert.equal(typeof session.projectID, "string")
      assert.equal(typeof session.version, "string")
      assert.equal(session.parentID, undefined)
      assert.ok(Math.abs(session.time.created - Date.now()) < 60_000)
      const created = await events.tape.type("session.created", session.id)
      assert.deepEqual(created.properties.info, session)
    })

    test("a session keeps the title it is given and can be read again", async () => {
      const session = await ok(sdk.create({ title: "Fix the fence" }))
      assert.equal(session.title, "Fix the fence")
      assert.deepEqual(await ok(sdk.get(session.id)), session)
    })

    test("title and metadata can be changed", async () => {
      const session = await ok(sdk.create({ title: "before" }))
      const changed = await ok(sdk.update(session.id, { title: "after", metadata: { ticket: 7 } }))
      assert.equal(changed.title, "after")
      assert.deepEqual(changed.metadata, { ticket: 7 })
      assert.ok(changed.time.updated >= session.time.updated)
      const event = await events.tape.type("session.updated", session.id)
      assert.deepEqual(event.properties.info, changed)
      const replaced = await ok(sdk.update(session.id, { metadata: { other: true } }))
      assert.deepEqual(replaced.metadata, { other: true }, "metadata is replaced, not merged")
      assert.equal(replaced.title, "after")
      assert.deepEqual(await ok(sdk.get(session.id)), replaced)
    })

    test("sessions are listed with the most recently changed first", async () => {
      const older = await ok(sdk.create({ title: `${name} older` }))
      const newer = await ok(sdk.create({ title: `${name} newer` }))
      const position = async (id) => (await ok(sdk.list())).findIndex((session) => session.id === id)
      assert.ok((await position(newer.id)) < (await position(older.id)))
      await ok(sdk.prompt(older.id, ask("simple")))
      assert.ok((await position(older.id)) < (await position(newer.id)))
    })

    test("a session is deleted with its children", async () => {
      const parent = await ok(sdk.create())
      const child = await ok(sdk.create({ parentID: parent.id }))
      assert.equal(child.parentID, parent.id)
      assert.match(child.title, /^Child session - /)
      assert.deepEqual(
        (await ok(sdk.children(parent.id))).map((session) => session.id),
        [child.id],
      )
      assert.equal(await ok(sdk.remove(parent.id)), true)
      await events.tape.type("session.deleted", parent.id)
      const deleted = events.tape.events.filter((event) => event.type === "session.deleted")
      assert.deepEqual(
        deleted.slice(-2).map((event) => event.properties.info.id),
        [child.id, parent.id],
        "children go first",
      )
      for (const { id } of [parent, child]) await refused(sdk.get(id), 404)
      assert.ok(!(await ok(sdk.list())).some(({ id }) => id === parent.id || id === child.id))
    })

    test("a busy session is aborted before it is deleted", async () => {
      const { id } = await ok(sdk.create())
      await ok(sdk.promptAsync(id, ask("slow:10000@20")))
      await events.tape.type("message.part.delta", id)
      assert.equal(await ok(sdk.remove(id)), true)
      await events.tape.type("session.deleted", id)
      const last = events.tape.of(id).slice(-3)
      assert.deepEqual(
        last.map((event) => event.type),
        ["session.status", "session.idle", "session.deleted"],
      )
      assert.equal(last[0].properties.status.reason, "aborted")
      assert.ok(!(id in (await ok(sdk.status()))))
    })

    test("a fork begins with a copy of all messages", async () => {
      const { id } = await ok(sdk.create({ title: "Original" }))
      await ok(sdk.prompt(id, ask("simple", "one")))
      await ok(sdk.prompt(id, ask("simple", "two")))
      const original = await ok(sdk.messages(id))

      const whole = await ok(sdk.fork(id))
      assert.equal(whole.title, "Original (fork #1)")
      assert.equal(whole.parentID, undefined, "a fork is not a child")
      assert.notEqual(whole.id, id)
      const copied = await ok(sdk.messages(whole.id))
      assert.deepEqual(copied.map(textOf), original.map(textOf))
      const ids = new Set(original.map(({ info }) => info.id))
      for (const { info, parts } of copied) {
        assert.ok(!ids.has(info.id), "copies have new ids")
        for (const part of parts) assert.deepEqual([part.sessionID, part.messageID], [whole.id, info.id])
      }
      assert.equal(copied[1].info.parentID, copied[0].info.id, "answers belong to the copied prompts")

      const second = original[2].info.id
      const half = await ok(sdk.fork(id, { messageID: second }))
      const kept = await ok(sdk.messages(half.id))
      assert.deepEqual(kept.map(textOf), original.slice(0, 2).map(textOf), "only messages before the given one")

      assert.equal((await ok(sdk.fork(whole.id))).title, "Original (fork #2)")
      await ok(sdk.prompt(whole.id, ask("simple", "three")))
      assert.equal((await ok(sdk.messages(id))).length, 4, "the original is unchanged")
      assert.deepEqual(await ok(sdk.children(id)), [])
    })

    test("unknown sessions are not found by any call", async () => {
      const id = "ses_000000000000nothinghere00"
      for (const call of [
        sdk.get(id),
        sdk.update(id, { title: "x" }),
        sdk.remove(id),
        sdk.children(id),
        sdk.todo(id),
        sdk.fork(id),
        sdk.messages(id),
        sdk.prompt(id, ask("simple")),
        sdk.promptAsync(id, ask("simple")),
        sdk.create({ parentID: id }),
      ]) {
        const error = await refused(call, 404)
        assert.equal(error.name, "NotFoundError")
        assert.match(error.data.message, /ses_000000000000nothinghere00/)
      }
      assert.equal(await ok(sdk.abort(id)), true, "as in OpenCode: it is not running, which is the goal")
    })

    test("with throwOnError the message of a refusal is the server's", async () => {
      const strict = connect(baton, { throwOnError: true })
      await assert.rejects(strict.get("ses_missing"), (error) => {
        assert.match(error.message, /ses_missing/)
        assert.equal(error.cause.status, 404)
        assert.equal(error.cause.body.name, "NotFoundError")
        return true
      })
    })
  })
}
