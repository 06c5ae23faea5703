// A model that streams words at a rate that the prompt names, and records when it sent each mark.

import { Scripted } from "../support/scripted.mjs"
import { SMALL } from "../support/model.mjs"

// "stream NAME COUNT MS" in a prompt: COUNT words, one every MS milliseconds. A fourth number sets the length of each word in
// characters; such words have no marks.
const PACE = /stream (\w+) (\d+) (\d+)(?: (\d+))?/g
// One word in this many is a mark; the benchmark measures its time to the screen.
const MARK_EVERY = 10

export const markOf = (name, number) => `⟦${name}:${number}⟧`

export class Streams extends Scripted {
  static base = "/v1"
  // The time at which each mark was sent, by its text.
  sent = new Map()

  async answer(_request, text, response) {
    const call = JSON.parse(text)
    response.writeHead(200, { "content-type": "text/event-stream" })
    const chunk = (delta, finish_reason = null) => {
      const choices = [{ index: 0, delta, finish_reason }]
      response.write(`data: ${JSON.stringify({ id: "chat", object: "chat.completion.chunk", created: 1, choices })}\n\n`)
    }
    const pace = call.model === SMALL ? undefined : paceOf(call.messages)
    if (pace) await this.#stream(pace, (content) => chunk({ role: "assistant", content }), response)
    else chunk({ role: "assistant", content: "A short answer" })
    chunk({}, "stop")
    response.end("data: [DONE]\n\n")
  }

  async #stream({ name, count, ms, size }, say, response) {
    const began = performance.now()
    for (let number = 0; number < count && !response.destroyed; number++) {
      const wait = began + number * ms - performance.now()
      if (wait > 1) await new Promise((resolve) => setTimeout(resolve, wait))
      if (size) say(block(number, size))
      else if (number % MARK_EVERY === 0) {
        const mark = markOf(name, number)
        this.sent.set(mark, Date.now())
        say(`${mark} `)
      } else say(number % 15 === 14 ? `word${number}.\n\n` : `word${number} `)
    }
  }
}

// Text of exactly this length; every eighth block ends a paragraph.
function block(number, size) {
  const end = number % 8 === 7 ? ".\n\n" : " "
  return "words of an answer ".repeat(Math.ceil(size / 19)).slice(0, size - end.length) + end
}

function paceOf(messages) {
  const texts = messages.filter(({ role }) => role === "user").map(({ content }) => JSON.stringify(content))
  const found = [...(texts.at(-1) ?? "").matchAll(PACE)].at(-1)
  return found && { name: found[1], count: Number(found[2]), ms: Number(found[3]), size: Number(found[4] ?? 0) }
}
