// A model that answers at once, and notes when it has sent the last byte of an answer.
//
// "steps N" in a prompt: N calls of the tool `bash`, one in each answer, then words. Any other prompt: words.

import { Scripted } from "../support/scripted.mjs"

const STEPS = /steps (\d+)/
const USAGE = { prompt_tokens: 1200, completion_tokens: 34, total_tokens: 1234 }

export class Quick extends Scripted {
  static base = "/v1"

  async answer(_request, text, response) {
    const step = stepOf(JSON.parse(text).messages)
    const chunk = (choices, more) =>
      `data: ${JSON.stringify({ id: "chat", object: "chat.completion.chunk", created: 1, choices, ...more })}\n\n`
    const delta = (delta, finish_reason = null) => chunk([{ index: 0, delta, finish_reason }])
    const said = step ? [call(step)] : ["Hello ", "from the ", "model."].map((content) => ({ content }))
    response.writeHead(200, { "content-type": "text/event-stream" })
    for (const one of said) response.write(delta({ role: "assistant", ...one }))
    response.write(delta({}, step ? "tool_calls" : "stop"))
    response.write(chunk([], { usage: USAGE }))
    response.end("data: [DONE]\n\n")
    this.ended = performance.now()
  }
}

// Every command is another one: both servers ask the user when a model repeats itself.
const call = (step) => ({
  tool_calls: [
    {
      index: 0,
      id: `call_${step}`,
      type: "function",
      function: { name: "bash", arguments: JSON.stringify({ command: `echo ${step}`, description: "Echo" }) },
    },
  ],
})

// The number of the tool call that is due, or nothing if words are.
function stepOf(messages) {
  const prompt = messages.findLastIndex(({ role }) => role === "user")
  const wanted = Number(STEPS.exec(JSON.stringify(messages[prompt]?.content))?.[1] ?? 0)
  const done = messages.slice(prompt + 1).filter(({ role }) => role === "assistant").length
  return done < wanted ? done + 1 : undefined
}
