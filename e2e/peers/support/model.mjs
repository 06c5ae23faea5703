// A model that says what a script tells it to, over the chat-completions dialect. Both servers are configured to use
// it, so that whatever differs between them is theirs.
//
// A prompt names its scenario in brackets: "please [read]". Which step of it is due follows from the answers that the
// conversation already holds since then, so the model keeps no state and several conversations cannot disturb each
// other.

import { scenarios } from "./scenarios.mjs"
import { refuse, Scripted } from "./scripted.mjs"

// What every call costs, so that both servers have something to add up.
const USAGE = { prompt_tokens: 1200, completion_tokens: 34, total_tokens: 1234 }
// The model that is asked for titles.
export const SMALL = "small"
export const MAIN = "main"

<<<<<<< HEAD
export class Model extends Scripted {
  static base = "/v1"
=======
export class Model {
  static async start() {
    const model = new Model()
    model.server = createServer((request, response) => {
      model.#answer(request, response).catch((error) => response.destroy(error))
    })
    model.server.listen(0, "127.0.0.1")
    await once(model.server, "listening")
    model.url = `http://127.0.0.1:${model.server.address().port}/v1`
    return model
  }

  // Answers that wait for the test to let them go on.
  #held = new Set()
  #watchers = []
>>>>>>> 284c4c3 (channels, cli: `baton channels` and `baton serve --channels`, from end to end)
  #seen = new Set()

<<<<<<< HEAD
  async answer(request, text, response) {
=======
  // Whether an answer stands still at a `hold`.
  get isHolding() {
    return this.#held.size > 0
  }

  // Resolves when an answer stands still.
  async holding() {
    if (!this.isHolding) await new Promise((resolve) => this.#watchers.push(resolve))
  }

  // Lets every answer go on that stands still at a `hold`.
  release() {
    for (const held of this.#held) held.resolve()
    this.#held.clear()
  }

  async stop() {
    this.release()
    this.server.closeAllConnections()
    this.server.close()
    await once(this.server, "close")
  }

  async #answer(request, response) {
    let text = ""
    for await (const chunk of request.setEncoding("utf8")) text += chunk
>>>>>>> 284c4c3 (channels, cli: `baton channels` and `baton serve --channels`, from end to end)
    const call = JSON.parse(text)
    this.calls.push(call)
    const step = next(call)
    const refusal = step.status ? step : this.#isFirst(request, call) && step.first
    if (refusal) return refuse(response, refusal)
    response.writeHead(200, { "content-type": "text/event-stream" })
    const send = (data) => response.write(`data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`)
    const chunk = (choices, more) => send({ id: "chat", object: "chat.completion.chunk", created: 1, choices, ...more })
    const delta = (delta, finish_reason = null) => chunk([{ index: 0, delta, finish_reason }])
    let calls = 0
    for (const act of step.acts) {
      if (act.say !== undefined) delta({ role: "assistant", content: act.say })
      if (act.think !== undefined) delta({ role: "assistant", reasoning_content: act.think })
      if (act.call !== undefined) delta({ role: "assistant", tool_calls: [toolCall(act, step.number, calls++)] })
      if (act.hold) await this.hold(response)
    }
    if (response.destroyed) return
    delta({}, step.finish ?? (calls ? "tool_calls" : "stop"))
    chunk([], { usage: USAGE })
    send("[DONE]")
    response.end()
  }

  // Whether this conversation has come to this point for the first time. Its text says which one it is, and the name of
  // the caller whose.
  #isFirst({ headers }, { messages }) {
    const spoken = messages.filter(({ role }) => role !== "system")
    const key = JSON.stringify([headers["user-agent"]?.split("/")[0], spoken])
    return !this.#seen.has(key) && Boolean(this.#seen.add(key))
  }
<<<<<<< HEAD
=======

  // Until the test says so, or whoever asked has gone away.
  async #hold(response) {
    const held = signal()
    this.#held.add(held)
    this.#watchers.splice(0).forEach((tell) => tell())
    response.on("close", held.resolve)
    await within(HELD_MS, held.promise, "the end of a hold")
    this.#held.delete(held)
  }
>>>>>>> 284c4c3 (channels, cli: `baton channels` and `baton serve --channels`, from end to end)
}

function toolCall({ call, input }, step, index) {
  const id = `call_${step}_${index}`
  return { index, id, type: "function", function: { name: call, arguments: JSON.stringify(input) } }
}

// What the conversation asks for now.
function next({ model, messages, tools }) {
  if (model === SMALL) return { acts: [{ say: "A scripted title" }] }
  // Only a summary is asked for without any tool.
  if (!tools?.length) return { acts: [{ say: "The summary " }, { say: "of it all." }] }
  // A reminder of open todos has words in brackets, too.
  const prompt = messages.findLastIndex((message) => message.role === "user" && scenarios[named(message)])
  const steps = scenarios[named(messages[prompt])] ?? scenarios.hello
  const done = messages.slice(prompt + 1).filter((message) => message.role === "assistant").length
  return { number: done + 1, ...steps[Math.min(done, steps.length - 1)] }
}

function named(message) {
  const { content } = message ?? {}
  const text = typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("\n")
  return /\[([a-z_]+)\]/.exec(text)?.[1]
}
