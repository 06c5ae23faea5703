// The gateway against an independent Telegram server: the npm package `telegram-test-api`. It is less complete
// than Telegram (its polls do not wait, it does not know "typing", it returns few fields), and the gateway must
// cope with that.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import TelegramServer from "telegram-test-api"
import { freePort, Gateway } from "./support/chats.mjs"
import { Baton, listing } from "./support/server.mjs"
import { within } from "./support/wait.mjs"

const TOKEN = "4200:not-a-token"
const ADA = { userId: 1001, chatId: 5001, firstName: "Ada", userName: "ada" }
const EVE = { userId: 6666, chatId: 5002, firstName: "Eve", userName: "eve" }

describe("the gateway and telegram-test-api", () => {
  let telegram, baton, gateway, ada, eve

  before(async () => {
    telegram = new TelegramServer({ host: "127.0.0.1", port: await freePort() })
    await telegram.start()
    ada = telegram.getClient(TOKEN, ADA)
    eve = telegram.getClient(TOKEN, EVE)
    baton = await Baton.start({ env: listing("simple", "question") })
    const channels = { telegram: { token: TOKEN, api: telegram.config.apiURL, allow: [String(ADA.userId)] } }
    gateway = new Gateway({ world: baton.world, address: baton.url, channels })
    await gateway.begin()
  })
  after(async () => {
    await gateway?.shutdown()
    await baton?.stop()
    await telegram?.stop()
  })

  const said = ({ chatId }) => telegram.storage.botMessages.filter(({ message }) => Number(message.chat_id) === chatId)

  // Messages that the bot sent or edited, as soon as they match.
  async function until(who, words) {
    for (;;) {
      const found = said(who).find(({ message }) => message.text.includes(words))
      if (found) return found
      const change = Promise.race([telegram.waitBotMessage(), telegram.waitBotEdits()])
      await within(30_000, change, `the bot to say ${words}`, () => JSON.stringify(said(who)) + gateway.log)
    }
  }

  const say = (client, text) => client.sendMessage(client.makeMessage(text))
  const command = (client, text) => client.sendCommand(client.makeCommand(text))

  test("a prompt is answered, once", async () => {
    await command(ada, "/model demo/simple")
    await until(ADA, "demo/simple")
    await say(ada, "hello")
    await until(ADA, "Hello from the demo model. All is well.")
    const answers = said(ADA).filter(({ message }) => message.text.includes("All is well."))
    assert.equal(answers.length, 1)
    assert.equal(answers[0].message.parse_mode, "HTML")
  })

  test("a question is answered with one of its buttons", async () => {
    await command(ada, "/model demo/question")
    await until(ADA, "demo/question")
    await say(ada, "ask me")
    const asked = await within(30_000, keyboard(), "a question with buttons", () => gateway.log)
    const [[button]] = asked.message.reply_markup.inline_keyboard
    await ada.sendCallback(ada.makeCallbackQuery(button.callback_data, { message: { message_id: asked.messageId } }))
    await until(ADA, "A good choice.")
  })

  test("an unpaired user is refused", async () => {
    await say(eve, "hello")
    const answer = await until(EVE, "/pair")
    assert.ok(!answer.message.text.includes("demo"))
  })

  test("the token is in no log", () => {
    assert.ok(gateway.log.length > 0)
    assert.ok(!gateway.log.includes("not-a-token"), gateway.log)
  })

  async function keyboard() {
    for (;;) {
      const found = said(ADA).find(({ message }) => message.reply_markup?.inline_keyboard?.length)
      if (found) return found
      await Promise.race([telegram.waitBotMessage(), telegram.waitBotEdits()])
    }
  }
})
