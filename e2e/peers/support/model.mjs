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

  // Whether this conversation has come to this point for the first time. Its text says which one it is, and the name of
  // the caller whose.
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
