// A model that says what a script tells it to, over OpenAI's Responses dialect, for agents that bring their own client.
//
// A prompt names its scenario in brackets: "please [read_edit]". Which step of it is due follows from the results that the
// conversation already holds since then, so the model keeps no state.

import { once } from "node:events"
import { createServer } from "node:http"
import { signal, within } from "../../support/wait.mjs"

const HELD_MS = 60_000
const USAGE = {
  input_tokens: 1200,
  output_tokens: 34,
  total_tokens: 1234,
  input_tokens_details: { cached_tokens: 200 },
  output_tokens_details: { reasoning_tokens: 4 },
}

export class Responses {
  static async start(scenarios) {
    const model = new Responses()
    model.scenarios = scenarios
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
  #count = 0
  // The bodies of all calls, for tests that want to know what the model was told.
  calls = []

  // Whether an answer stands still at a `hold`.
  get isHolding() {
    return this.#held.size > 0
  }

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
    if (!request.url.endsWith("/responses")) {
      response.writeHead(404, { "content-type": "application/json" })
      response.end(JSON.stringify({ error: { message: `nothing is at ${request.url}` } }))
      return
    }
    const call = JSON.parse(text)
    this.calls.push(call)
    const { acts, status, message } = this.#next(call)
    if (status) {
      response.writeHead(status, { "content-type": "application/json" })
      response.end(JSON.stringify({ error: { type: "scripted", message } }))
      return
    }
    const number = ++this.#count
    response.writeHead(200, { "content-type": "text/event-stream" })
    const send = (type, more) => response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`)
    send("response.created", { response: { id: `resp_${number}` } })
    let index = 0
    for (const act of acts) {
      const item = made(act, `${number}_${index}`)
      const { say } = act
      if (item) send("response.output_item.added", { output_index: index, item: say ? { ...item, content: [] } : item })
      if (say) send("response.output_text.delta", { item_id: item.id, output_index: index, content_index: 0, delta: say })
      if (act.hold) await this.#hold(response)
      if (item) send("response.output_item.done", { output_index: index, item })
      index += 1
    }
    if (response.destroyed) return
    send("response.completed", { response: { id: `resp_${number}`, usage: USAGE } })
    response.end()
  }

  // What the conversation asks for now.
  #next({ input }) {
    const prompt = input.findLastIndex((item) => item.role === "user" && this.#named(item))
    const steps = this.scenarios[this.#named(input[prompt])] ?? [{ acts: [{ say: "Hello." }] }]
    const results = input.slice(prompt + 1).filter((item) => item.type?.endsWith("_output"))
    return steps[Math.min(results.length, steps.length - 1)]
  }

  #named(item) {
    const text = [item?.content ?? []].flat().map((part) => part.text ?? "").join("\n")
    const name = /\[([a-z_]+)\]/.exec(text)?.[1]
    return name in this.scenarios ? name : undefined
  }

  // Until the test says so, or whoever asked has gone away.
  async #hold(response) {
    const held = signal()
    this.#held.add(held)
    response.on("close", held.resolve)
    await within(HELD_MS, held.promise, "the end of a hold")
  }
}

// An item of the answer.
function made({ say, call, input, patch }, id) {
  if (say) {
    return { type: "message", role: "assistant", id: `msg_${id}`, content: [{ type: "output_text", text: say }] }
  }
  if (call) return { type: "function_call", id: `fc_${id}`, call_id: `call_${id}`, name: call, arguments: JSON.stringify(input) }
  if (patch) return { type: "custom_tool_call", id: `ctc_${id}`, call_id: `call_${id}`, name: "apply_patch", input: patch }
}
