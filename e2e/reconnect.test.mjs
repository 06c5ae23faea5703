// Lost streams: a client resumes with its cursor and misses nothing, even if the server was down.

import assert from "node:assert/strict"
import net from "node:net"
import { after, before, describe, test } from "node:test"
import { ask, clients, ok, textOf, v2 } from "./support/sdk.mjs"
import { Baton } from "./support/server.mjs"
import { listen, record } from "./support/stream.mjs"
import { idlePairs, Tape, story } from "./support/tape.mjs"
import { signal, within } from "./support/wait.mjs"

describe("a stream that is resumed", () => {
  let baton, sdk
  before(async () => {
    baton = await Baton.start()
    sdk = v2(baton)
  })
  after(() => baton.stop())

  // The last full text of every part.
  const texts = (tape) => {
    const texts = new Map()
    for (const { type, properties } of tape.events) {
      if (type === "message.part.updated") texts.set(properties.part.id, properties.part.text)
      if (type === "message.part.removed") texts.delete(properties.partID)
      if (type === "message.part.delta") {
        const { partID, delta } = properties
        assert.ok(texts.has(partID), "deltas refer to known parts")
        texts.set(partID, texts.get(partID) + delta)
      }
    }
    return texts
  }

  const deltas = (tape, count) => {
    let seen = 0
    return tape.until((event) => event.type === "message.part.delta" && ++seen === count, `${count} deltas`)
  }

  test("only durable events have an id, and ids count up", async () => {
    const events = await listen(baton)
    const { id } = await ok(sdk.create())
    await ok(sdk.prompt(id, ask("simple")))
    await events.tape.idle(id)
    await events.close()
    const ids = events.tape.durable.map((frame) => Number(frame.id))
    assert.deepEqual(
      ids,
      [...ids].sort((a, b) => a - b),
    )
    assert.equal(new Set(ids).size, ids.length)
    for (const { event, id } of events.tape.frames) {
      const isLive = ["message.part.delta", "server.connected", "server.ready", "server.heartbeat"].includes(event.type)
      assert.equal(id === undefined, isLive, event.type)
    }
    assert.match(events.response.headers.get("content-type"), /^text\/event-stream/)
    assert.match(events.response.headers.get("cache-control"), /no-cache/)
  })

  for (const [how, resume] of [
    ["Last-Event-ID", (cursor) => ({ headers: { "Last-Event-ID": cursor } })],
    ["?after=", (cursor) => ({ target: `/event?after=${cursor}` })],
    ["Last-Event-ID on /global/event", (cursor) => ({ target: "/global/event", headers: { "Last-Event-ID": cursor } })],
  ]) {
    test(`with ${how} it continues where it was cut, in the middle of a text`, async () => {
      const witness = await listen(baton)
      const first = await listen(baton)
      const { id } = await ok(sdk.create())
      await ok(sdk.promptAsync(id, ask("slow:60@20")))
      await deltas(first.tape, 5)
      await first.close()
      // Events sent meanwhile are missed and must be replayed.
      await deltas(witness.tape, 12)
      const second = await listen(baton, resume(first.tape.cursor))
      const joined = new Tape()
      for (const { event, id } of first.tape.frames) joined.push(event, id)
      const unwrap = (event) => event.payload ?? event
      const isIdle = (event) => unwrap(event).type === "session.idle"
      await second.tape.until(isIdle, "idle")
      await witness.tape.idle(id)
      for (const { event, id } of second.tape.frames) {
        if (unwrap(event).type !== "sync") joined.push(unwrap(event), id)
      }
      assert.deepEqual(joined.durable, witness.tape.durable, "all durable events, once and in order")
      assert.deepEqual(texts(joined), texts(witness.tape), "and the same texts")
      await Promise.all([witness.close(), second.close()])
    })
  }

  test("a cursor at the end replays nothing", async () => {
    const first = await listen(baton)
    const { id } = await ok(sdk.create())
    await first.tape.type("session.created", id)
    await first.close()
    const second = await listen(baton, { headers: { "Last-Event-ID": first.tape.cursor } })
    const { id: next } = await ok(sdk.create())
    await second.tape.type("session.created", next)
    assert.deepEqual(
      second.tape.durable.map(({ event }) => event.properties.sessionID),
      [next],
    )
    await second.close()
  })

  test("an invalid cursor is refused", async () => {
    for (const init of [{ target: "/event?after=yesterday" }, { target: "/event?after=-1" }]) {
      const response = await baton.fetch(init.target)
      assert.equal(response.status, 400, init.target)
      await response.body?.cancel()
    }
  })
})

for (const [name, connect] of clients) {
  test(`${name}: the SDK's own stream survives a cut connection`, async () => {
    const baton = await Baton.start()
    const wire = await Wire.to(baton.port)
    const direct = connect(baton)
    const sdk = connect({ url: wire.url, directory: baton.directory })
    const witness = await listen(baton)
    const sleeping = signal()
    const mayGoOn = signal()
    const events = await record(sdk.subscribe, {
      sseMaxRetryAttempts: 3,
      sseSleepFn: () => (sleeping.resolve(), mayGoOn.promise),
    })
    const { id } = await ok(direct.create())
    await ok(direct.promptAsync(id, ask("permission")))
    const request = (await events.tape.type("permission.asked", id)).properties
    wire.cut()
    await sleeping.promise
    await ok(direct.permission(request, "once"))
    await witness.tape.idle(id)
    mayGoOn.resolve()
    await events.tape.idle(id)
    const durable = events.tape.events.filter(isDurable)
    assert.deepEqual(
      durable,
      witness.tape.durable.map(({ event }) => event),
      "nothing is missing and nothing came twice",
    )
    await Promise.all([events.close(), witness.close()])
    await wire.close()
    await baton.stop()
  })

  test(`${name}: a late client receives busy sessions and pending requests`, async () => {
    const baton = await Baton.start()
    const sdk = connect(baton)
    const early = await record(sdk.subscribe)
    const { id } = await ok(sdk.create())
    await ok(sdk.promptAsync(id, ask("permission")))
    const asked = await early.tape.type("permission.asked", id)
    const late = await record(sdk.subscribe)
    assert.deepEqual((await late.tape.type("session.status", id)).properties.status, { type: "busy" })
    assert.deepEqual((await late.tape.type("permission.asked", id)).properties, asked.properties)
    const everywhere = await record(sdk.globalEvents)
    const again = ({ payload }) => payload.type === "permission.asked"
    assert.equal((await everywhere.tape.until(again, "the permission")).directory, baton.directory)
    await ok(sdk.permission(asked.properties, "once"))
    await late.tape.idle(id)
    assert.equal(idlePairs(late.tape.of(id)).get(id), 1)
    const after = await record(sdk.subscribe)
    const { id: next } = await ok(sdk.create())
    await after.tape.type("session.created", next)
    assert.deepEqual(after.tape.of(id), [], "there are no events about idle sessions")
    await Promise.all([early, late, everywhere, after].map((events) => events.close()))
    await baton.stop()
  })

  test(`${name}: the SDK's own stream survives the crash of the server`, async () => {
    const baton = await Baton.start()
    const sdk = connect(baton)
    const sleeping = signal()
    const mayGoOn = signal()
    const events = await record(sdk.subscribe, {
      sseMaxRetryAttempts: 3,
      sseSleepFn: () => (sleeping.resolve(), mayGoOn.promise),
    })
    const { id } = await ok(sdk.create())
    await ok(sdk.promptAsync(id, ask("slow:10000@20")))
    await events.tape.type("message.part.delta", id)
    await ok(sdk.promptAsync(id, ask("simple", "and then", { delivery: "queue" })))
    await baton.kill()
    await sleeping.promise
    await baton.begin()
    mayGoOn.resolve()
    await events.tape.idle(id, 2)
    const statuses = story(events.tape.of(id).filter((event) => event.type === "session.status"))
    assert.deepEqual(
      // A client that reconnects receives busy again.
      statuses.filter((status, at) => status !== statuses[at - 1]),
      ["BUSY", "IDLE(interrupted)", "BUSY", "IDLE(completed)"],
      "what ran is ended, what waited is run, and the client hears of both",
    )
    const [first, , second, answer] = await ok(sdk.messages(id))
    assert.deepEqual([first, second].map(textOf), ["hello", "and then"])
    assert.equal(answer.info.parentID, second.info.id)
    assert.deepEqual(await ok(sdk.status()), {})
    await events.close()
    await baton.stop()
  })
}

test("a server that stops ends all streams cleanly, and a cursor works after the next start", async () => {
  const baton = await Baton.start()
  const sdk = v2(baton)
  const before = await listen(baton)
  const { id } = await ok(sdk.create())
  const waiting = sdk.prompt(id, ask("slow:10000@20"))
  await before.tape.type("message.part.delta", id)
  const cursor = before.tape.cursor
  await baton.shutdown()
  assert.equal(await within(5_000, before.ended, "the end of the stream"), undefined, "it ended cleanly")
  assert.deepEqual(story(before.tape.of(id)).slice(-2), ["IDLE(interrupted)", "session.idle"])
  await waiting
  await baton.begin()
  const since = await listen(baton, { headers: { "Last-Event-ID": cursor } })
  await since.tape.idle(id)
  const missed = before.tape.durable.filter((frame) => Number(frame.id) > Number(cursor))
  assert.deepEqual(since.tape.durable, missed)
  const answer = await ok(sdk.prompt(id, ask("simple", "still there?")))
  assert.equal(textOf(answer), "Hello from the demo model. All is well.")
  await since.tape.idle(id, 2)
  assert.equal(idlePairs(since.tape.of(id)).get(id), 2)
  await since.close()
  await baton.stop()
})

// Matches by type, for streams whose frames the SDK does not show.
function isDurable(event) {
  return !["server.connected", "server.ready", "server.heartbeat", "message.part.delta"].includes(event.type)
}

// A proxy between client and server whose connections can be cut.
class Wire {
  static async to(port) {
    const wire = new Wire()
    wire.sockets = new Set()
    wire.server = net.createServer((near) => {
      const far = net.connect(port, "127.0.0.1")
      near.pipe(far).pipe(near)
      for (const socket of [near, far]) {
        wire.sockets.add(socket)
        socket.on("error", () => {}).on("close", () => wire.sockets.delete(socket))
      }
    })
    await new Promise((resolve) => wire.server.listen(0, "127.0.0.1", resolve))
    wire.url = `http://127.0.0.1:${wire.server.address().port}`
    return wire
  }

  cut() {
    for (const socket of this.sockets) socket.resetAndDestroy()
  }

  async close() {
    this.cut()
    await new Promise((resolve) => this.server.close(resolve))
  }
}
