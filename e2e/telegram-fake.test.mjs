// Verifies the fake of Telegram with grammY, a widely used client: it polls, sends, edits, answers and is rate
// limited, and notices no difference.

import assert from "node:assert/strict"
import { after, before, describe, test } from "node:test"
import { Bot, GrammyError, InlineKeyboard, InputFile } from "grammy"
import { Platform } from "./support/platform.mjs"
import { signal, within } from "./support/wait.mjs"

const TOKEN = "4200:fake-token"
const ADA = { chat: "7", from: "1", name: "Ada" }

describe("grammY and the fake", () => {
  let fake, bot, polling
  // Updates that the bot received, in order.
  const heard = []
  let news = signal()
  const hear = (it) => {
    heard.push(it)
    news.resolve()
    news = signal()
  }
  async function until(look, what) {
    for (;;) {
      const found = heard.find(look)
      if (found) return found
      await within(15_000, news.promise, what)
    }
  }

  const connect = (token, options = {}) => new Bot(token, { client: { apiRoot: fake.url, ...options } })
  const says = (text) => (it) => it.message?.text === text || it.message?.caption === text

  before(async () => {
    fake = await Platform.start("telegram", { token: TOKEN, perSecond: 20 })
    bot = connect(TOKEN)
    bot.on("message", (context) => hear(context.update))
    bot.on("callback_query:data", (context) => hear(context.update))
    const started = signal()
    polling = bot.start({ onStart: started.resolve, allowed_updates: ["message", "callback_query"] })
    await within(15_000, started.promise, "grammY to start")
  })
  after(async () => {
    await bot?.stop()
    await polling
    await fake?.stop()
  })

  const look = () => fake.until("the state", (state) => state)

  const refused = async (code, words, call) => {
    const error = await call.then(() => assert.fail("the call was not refused"), (error) => error)
    assert.ok(error instanceof GrammyError, String(error))
    assert.equal(error.error_code, code, error.description)
    assert.match(error.description, words)
    return error
  }

  test("identifies the bot and rejects a wrong token", async () => {
    const me = await bot.api.getMe()
    assert.deepEqual([me.id, me.is_bot, me.username], [4200, true, "baton_bot"])
    await refused(401, /Unauthorized/, connect("1:wrong").api.getMe())
  })

  test("receives messages, also in a topic and with a file", async () => {
    await fake.control("say", { ...ADA, text: "one" })
    assert.equal((await until(says("one"), "the message")).message.chat.type, "private")
    const topic = { ...ADA, chat: "-70", thread: "5", isGroup: true }
    await fake.control("say", { ...topic, text: "two" })
    assert.equal((await until(says("two"), "the message in a topic")).message.message_thread_id, 5)
    await fake.control("say", { ...ADA, text: "three", file: { name: "a.txt", mime: "text/plain", base64: "aGVsbG8=" } })
    const { message } = await until(says("three"), "the file")
    const file = await bot.api.getFile(message.document.file_id)
    const bytes = await fetch(`${fake.url}/file/bot${TOKEN}/${file.file_path}`)
    assert.equal(await bytes.text(), "hello")
    await fake.control("repeat")
    // A bot that confirms updates gets each once; those that the service repeats, it gets again.
    await fake.until("the confirmations", (state) => state.acknowledged >= 3)
  })

  test("sends, edits and deletes messages", async () => {
    const html = { parse_mode: "HTML" }
    const sent = await bot.api.sendMessage(7, "<b>one</b> &amp; two", html)
    assert.equal(sent.text, "one & two")
    await bot.api.editMessageText(7, sent.message_id, "three")
    await refused(400, /message is not modified/, bot.api.editMessageText(7, sent.message_id, "three"))
    const { messages } = await look()
    const shown = messages.find(({ id }) => id === String(sent.message_id))
    assert.deepEqual([shown.text, shown.before], ["three", ["<b>one</b> &amp; two"]])
    await bot.api.deleteMessage(7, sent.message_id)
    await refused(400, /message to delete not found/, bot.api.deleteMessage(7, sent.message_id))
    await bot.api.sendChatAction(7, "typing")
    const file = await bot.api.sendDocument(7, new InputFile(Buffer.from("+a\n"), "a.diff"), { caption: "A change" })
    const state = await look()
    const document = state.messages.find(({ id }) => id === String(file.message_id))
    assert.deepEqual([document.file.name, document.file.text, document.text], ["a.diff", "+a\n", "A change"])
    assert.equal(state.typing["7"], 1)
  })

  test("is bound by the limits", async () => {
    const html = { parse_mode: "HTML" }
    await refused(400, /message is too long/, bot.api.sendMessage(7, "x".repeat(4097)))
    await bot.api.sendMessage(7, `<b>${"x".repeat(4096)}</b>`, html)
    await refused(400, /can't parse entities/, bot.api.sendMessage(7, "<b>open", html))
    await refused(400, /chat not found/, bot.api.sendMessage(8, "who are you?"))
    const long = new InlineKeyboard().text("Yes", "x".repeat(65))
    await refused(400, /BUTTON_DATA_INVALID/, bot.api.sendMessage(7, "Yes?", { reply_markup: long }))
    const caption = { caption: "x".repeat(1025) }
    await refused(400, /caption is too long/, bot.api.sendDocument(7, new InputFile(Buffer.from("a"), "a"), caption))
  })

  test("receives a button and answers it once", async () => {
    const reply_markup = new InlineKeyboard().text("Yes", "t1").text("No", "t2")
    const sent = await bot.api.sendMessage(7, "Shall I?", { reply_markup })
    await fake.control("tap", { ...ADA, message: String(sent.message_id), label: "No" })
    const { callback_query: query } = await until((it) => it.callback_query, "the button")
    assert.deepEqual([query.data, query.message.message_id], ["t2", sent.message_id])
    await bot.api.answerCallbackQuery(query.id, { text: "Well then" })
    await refused(400, /query is too old/, bot.api.answerCallbackQuery(query.id))
    assert.deepEqual((await look()).understood, ["Well then"])
  })

  test("is rate limited", async () => {
    await fake.control("fault", { method: "sendMessage", kind: "busy", after: 7 })
    const error = await refused(429, /Too Many Requests/, bot.api.sendMessage(7, "quick"))
    assert.equal(error.parameters.retry_after, 7)
  })

  test("has one poll: a second ends the first, and a webhook ends all", async () => {
    await bot.stop()
    await polling
    const before = (await look()).calls.getUpdates
    const first = refused(409, /terminated by other getUpdates/, bot.api.getUpdates({ timeout: 30 }))
    await fake.until("the first poll", (state) => state.calls.getUpdates > before)
    await connect(TOKEN).api.getUpdates({ timeout: 0 })
    await first
    await bot.api.setWebhook(`${fake.url}/control/nowhere`)
    await refused(409, /webhook is active/, bot.api.getUpdates())
    await bot.api.deleteWebhook()
    assert.deepEqual(await bot.api.getUpdates(), [])
  })
})
