// A scripted model that speaks the chat-completions dialect. Both servers use it, so that every difference between their
// streams comes from the servers.
//
// A prompt names its scenario in brackets: "please [read]". The number of answers since that prompt determines the next
// step, so the model keeps no state and several conversations cannot disturb each other.

import { scenarios } from "./scenarios.mjs"
import { refuse, Scripted } from "./scripted.mjs"

// The usage of every call, so that both servers have tokens to count.
const USAGE = { prompt_tokens: 1200, completion_tokens: 34, total_tokens: 1234 }
// The model that generates titles.
export const SMALL = "small"
export const MAIN = "main"

export class Model extends Scripted {
  static base = "/v1"
  #seen = new Set()

  async answer(request, text, response) {
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

  // True if this server has sent this conversation for the first time. Its text and the caller's name identify it.
  #isFirst({ headers }, { messages }) {
    const spoken = messages.filter(({ role }) => role !== "system")
    const key = JSON.stringify([headers["user-agent"]?.split("/")[0], spoken])
    return !this.#seen.has(key) && Boolean(this.#seen.add(key))
  }
}

function toolCall({ call, input }, step, index) {
  const id = `call_${step}_${index}`
  return { index, id, type: "function", function: { name: call, arguments: JSON.stringify(input) } }
}

// Returns the next step of a conversation.
function next({ model, messages, tools }) {
  if (model === SMALL) return { acts: [{ say: "A scripted title" }] }
  // Only a call for a summary has no tools.
  if (!tools?.length) return { acts: [{ say: "The summary " }, { say: "of it all." }] }
  // A reminder of open todos also contains words in brackets.
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
