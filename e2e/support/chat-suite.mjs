// The tests that run with every chat service and every server.

import assert from "node:assert/strict"
import { after, afterEach, before, describe, test } from "node:test"
import { Model } from "../peers/support/model.mjs"
import { Gate, Gateway, PATIENCE_MS } from "./chats.mjs"
import { Platform } from "./platform.mjs"
import { within } from "./wait.mjs"

const ADA = { from: "1001", name: "Ada" }
const EVE = { from: "6666", name: "Eve" }

// Random numbers below `sides`, from a seed.
function dice(seed) {
  let state = seed >>> 0
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * sides)
  }
}

// `service` describes a chat service (see `services.mjs`); `startServer` starts a server for a model.
export function suite(title, { service, startServer }) {
  describe(title, () => {
    let model, server, gate, fake, gateway
    // Every test has its own chat.
    let chats = 0
    const chat = () => service.chat(++chats)

    const shown = (state, place) => state.messages.filter((it) => it.chat === place.chat && !it.isRemoved)
    const says = (place, ...words) => (state) =>
      shown(state, place).find((it) => words.every((word) => service.plain(it.text).includes(word)))
    const answers = async (place, words) =>
      shown(await fake.state(), place).filter((it) => service.plain(it.text).includes(words)).length
    const say = (place, text, more = {}) => fake.say({ ...ADA, ...place, text, ...more })
    const tap = (place, message, label) => fake.tap({ ...ADA, ...place, message: message.id, label })
    const button = (message, word) => message.buttons.find(({ label }) => label.includes(word))?.label
    const until = (look, what) => fake.until(`${what}\n${gateway.log.slice(-4_000)}`, look)

    // Waits until the model has sent its first text.
    const begun = () => within(PATIENCE_MS, model.holding(), "the model to begin", () => gateway.log.slice(-4_000))

    async function connect(router = {}, address = fake.url) {
      const channels = await service.settings({ url: address }, service.allow ?? [ADA.from])
      const progress = { toolThrottleMs: 1_000, ...router.progress }
      channels.router = { ...router, progress }
      gateway = new Gateway({ world: server.world, address: gate.url, channels })
      await gateway.begin()
      await service.connected?.(fake)
    }

    async function reconnect(router, address) {
      await gateway.shutdown()
      await connect(router, address)
    }

    before(async () => {
      model = await Model.start()
      server = await startServer(model)
      gate = await Gate.open(server.url)
      fake = await Platform.start(service.name, await service.options?.())
      await connect()
    })

    afterEach(async () => {
      const { problems } = await fake.state()
      assert.deepEqual(problems, [], "the gateway broke a rule of the service")
    })

    after(async () => {
      await gateway?.shutdown()
      await fake?.stop()
      await gate?.stop()
      await server?.stop()
      await model?.stop()
    })

    test("a prompt is answered; typing and tools are shown meanwhile", async () => {
      const place = chat()
      await say(place, "please [work]")
      await begun()
      await until((state) => state.typing[place.chat], "typing")
      await until(says(place, "🔧"), "a line about the tool")
      model.release()
      await until(says(place, "Counted."), "the answer")
      assert.equal(await answers(place, "Counted."), 1)
      assert.equal(await answers(place, "📥"), 0, "no other message waits")
    })

    test("a question has buttons, and a button answers it", async () => {
      const place = chat()
      await say(place, "please [question]")
      const asked = await until(says(place, "Which colour"), "the question")
      await tap(place, asked, button(asked, "Green"))
      await until(says(place, "A fine choice."), "the answer")
    })

    test("a question is answered by typing", async () => {
      const place = chat()
      await say(place, "please [question]")
      await until(says(place, "Which colour"), "the question")
      await say(place, "2")
      await until(says(place, "A fine choice."), "the answer")
      assert.ok(JSON.stringify(model.calls).includes("Green"), "the number stands for the answer")
    })

    test("a permission request of a child session reaches the user", async () => {
      const place = chat()
      await say(place, "please [delegate]")
      const asked = await until(says(place, "touch asked.txt"), "the permission")
      await tap(place, asked, asked.buttons[0].label)
      await until(says(place, "The other one has done it."), "the answer")
    })

    test("/cancel stops a turn", async () => {
      const place = chat()
      await say(place, "please [hold]")
      await begun()
      await say(place, "/cancel")
      await until(says(place, "Stopped"), "the word that it was stopped")
      await say(place, "please [hello]")
      await until(says(place, "Hello from the scripted model."), "the next answer")
    })

    test("a long answer is split, but not inside its code", async () => {
      const place = chat()
      await say(place, "please [long]")
      await until(says(place, "The end of it all."), "the last piece")
      const pieces = shown(await fake.state(), place).filter((it) => !service.plain(it.text).includes("🔧"))
      assert.ok(pieces.length > 1, "more than one piece")
      const text = pieces.map((it) => service.plain(it.text)).join("\n")
      for (let line = 1; line <= 100; line += 1) assert.ok(text.includes(`let line_${line} =`), `line ${line}`)
    })

    test("a file of the user reaches the model", async () => {
      const place = chat()
      const file = { name: "notes.txt", mime: "text/plain", base64: Buffer.from("a wild sentence").toString("base64") }
      await say(place, "please look [hello]", { file })
      await until(says(place, "Hello from"), "the answer")
      assert.ok(JSON.stringify(model.calls).includes("a wild sentence"), "the model receives the content of the file")
    })

    test("two chats do not wait for each other", async () => {
      const [one, two] = [chat(), chat()]
      await say(one, "please [hold]")
      await begun()
      await say(two, "please [hello]")
      await until(says(two, "Hello from"), "the second chat's answer")
      assert.equal(await answers(one, "until now."), 0)
      model.release()
      await until(says(one, "until now."), "the first chat's answer")
    })

    test("messages of one chat are answered in order", async () => {
      const place = chat()
      await say(place, "please [hold]")
      await begun()
      await say(place, "please [shell]")
      model.release()
      await until(says(place, "Counted."), "the second answer")
      const texts = shown(await fake.state(), place).map((it) => service.plain(it.text))
      const [first, second] = ["until now.", "Counted."].map((words) => texts.findIndex((text) => text.includes(words)))
      assert.ok(first >= 0 && first < second, JSON.stringify(texts))
    })

    test("an update that is delivered twice is one prompt", async () => {
      const place = chat()
      await say(place, "please [hello]")
      await fake.repeat()
      await until(says(place, "Hello from"), "the answer")
      await fake.repeat()
      await say(place, "please [shell]")
      await until(says(place, "Counted."), "what came after it")
      assert.equal(await answers(place, "Hello from"), 1)
    })

    test("a user without access is refused, and gets access with a code", async () => {
      const place = service.stranger ?? { ...chat(), ...EVE }
      const before = model.calls.length
      await say(place, "please [hello]")
      await until(says(place, "/pair"), "the refusal")
      assert.equal(model.calls.length, before, "nothing was run")
      const code = await gateway.run("pair")
      await say(place, `/pair ${code}`)
      await until((state) => shown(state, place).length >= 2 && state, "the welcome")
      await say(place, "please [hello]")
      await until(says(place, "Hello from"), "the answer")
    })

    test("killed between receiving and running: the message is answered once", async () => {
      const place = chat()
      gate.shut()
      const { acknowledged } = await fake.state()
      await say(place, "please [hello]")
      await until((state) => state.acknowledged > acknowledged && state, "the update to be taken")
      await gateway.kill()
      gate.reopen()
      await connect()
      await until(says(place, "Hello from"), "the answer")
      assert.equal(await answers(place, "Hello from"), 1)
    })

    test("killed while the agent works: the answer is delivered once", async () => {
      const place = chat()
      await say(place, "please [work]")
      await begun()
      await until(says(place, "🔧"), "a line about the tool")
      await gateway.kill()
      model.release()
      await connect()
      await until(says(place, "Counted."), "the answer")
      if (service.takesBack) await until((state) => !says(place, "🔧")(state), "the line about the tool to go")
      assert.equal(await answers(place, "Counted."), 1)
    })

    test("killed between running and sending: the answer is delivered once", async () => {
      await reconnect({ progress: { enabled: false } })
      const place = chat()
      await fake.plan({ method: service.send, kind: "busy", after: 2 })
      await say(place, "please [hello]")
      await gateway.logged("the service did not accept a post")
      await gateway.kill()
      await connect()
      await until(says(place, "Hello from"), "the answer")
      assert.equal(await answers(place, "Hello from"), 1)
    })

    test("an answer that may have arrived is not sent twice", async () => {
      await reconnect({ progress: { enabled: false } })
      const place = chat()
      await fake.plan({ method: service.send, kind: "cut" })
      await say(place, "please [hello]")
      await until(says(place, "may not have arrived"), "the doubt")
      assert.equal(await answers(place, "Hello from"), 1)
      await reconnect()
    })

    test("two failures in a row: the note about the answer is repeated until it arrives", async () => {
      await reconnect({ progress: { enabled: false } })
      const place = chat()
      await fake.plan({ method: service.send, kind: "broken", times: 2 })
      await say(place, "please [hello]")
      await until(says(place, "may not have arrived"), "the doubt")
      assert.equal(await answers(place, "Hello from"), 0, "the service did not take it")
      await reconnect()
    })

    // CHAT_SEED repeats a run.
    test("connections break in every way: each message is answered once, or the chat says that an answer may be missing", async (t) => {
      const seed = Number(process.env.CHAT_SEED ?? Math.floor(Math.random() * 1e9))
      t.diagnostic(`CHAT_SEED=${seed}`)
      const roll = dice(seed)
      await reconnect({ progress: { enabled: false } }, fake.broken)
      // The faults begin when the gateway receives messages, not while it is still logging in.
      const before = chat()
      await say(before, "please [hello]")
      await until(says(before, "Hello from"), "an answer before the first cut")
      const kinds = ["reset", "hang", "badGateway", "halfOpen"]
      while (kinds.length > 0) {
        const [kind] = kinds.splice(roll(kinds.length), 1)
        const what = (moment) => `after ${kind} ${moment} (CHAT_SEED=${seed})`
        // The cut hits a message on its way to the gateway, or the answer on its way back.
        const isOnTheWay = roll(2) === 0
        const [place, next] = [chat(), chat()]
        if (isOnTheWay) {
          await fake.cut(kind)
          await say(place, "please [hello]")
          await fake.cutCall(service.receive)
        } else {
          await say(place, "please [hold]")
          await begun()
          await fake.cut(kind)
          model.release()
          await fake.cutCall(service.send)
        }
        await fake.restore()
        const moment = isOnTheWay ? "on the way" : "during the answer"
        await say(next, "please [hello]")
        await until(says(next, "Hello from"), `the next answer ${what(moment)}`)
        const words = isOnTheWay ? "Hello from" : "until now."
        const isAnswered = says(place, words)
        const isTold = says(place, "may not have arrived")
        await until((state) => isAnswered(state) || isTold(state), `the answer or a note ${what(moment)}`)
        assert.ok((await answers(place, words)) <= 1, `answered twice ${what(moment)}`)
        assert.equal(await answers(next, "Hello from"), 1, `answered twice ${what(moment)}`)
      }
      await reconnect()
    })

    // Only Linux can change the limits of a process that runs.
    test("a full disk: a message that cannot be stored is answered when there is space", { skip: process.platform !== "linux" }, async () => {
      const place = chat()
      gateway.limit(1)
      const { acknowledged } = await fake.state()
      await say(place, "please [hello]")
      await gateway.logged("cannot store updates")
      assert.equal((await fake.state()).acknowledged, acknowledged, "the service must not forget it")
      gateway.limit("unlimited")
      await until(says(place, "Hello from"), "the answer")
      await say(place, "please [shell]")
      await until(says(place, "Counted."), "what came after it")
      assert.equal(await answers(place, "Hello from"), 1)
    })

    test("a wrong token is reported, and the gateway exits", async () => {
      await gateway.shutdown()
      const other = await Platform.start(service.name, await service.options?.())
      const channels = await service.settings(other, [ADA.from])
      for (const name of service.tokens) channels[service.name][name] = "123:wrong-one"
      gateway = new Gateway({ world: server.world, address: gate.url, channels })
      await gateway.begin()
      const [code] = await within(PATIENCE_MS, gateway.child.ended, "the end", () => gateway.log.slice(-4_000))
      assert.equal(code, 2, gateway.log)
      assert.match(gateway.log, /refused: .*(token|auth)/)
      assert.ok(!gateway.log.includes("wrong-one"), "the token was logged")
      await other.stop()
      await connect()
    })

    test("the state of the channel is shown, and a killed gateway is stopped", async () => {
      const isConnected = async () => {
        while (!(await gateway.run("status")).startsWith(`${service.name}\tconnected for `));
      }
      await within(PATIENCE_MS, isConnected(), "the connection", () => gateway.log.slice(-4_000))
      await gateway.kill()
      assert.equal(await gateway.run("status"), `${service.name}\tstopped: the gateway ended unexpectedly`)
      await connect()
      await gateway.shutdown()
      assert.match(await gateway.run("status"), new RegExp(`^${service.name}\tstopped .+ ago$`))
      await connect()
    })

    test("no secret is in the log", () => {
      for (const secret of service.secrets) assert.ok(!gateway.log.includes(secret), `${secret} was logged`)
    })
  })
}
