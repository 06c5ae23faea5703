// A scripted model that speaks OpenAI's Responses dialect, for agents that bring their own client.
//
// A prompt names its scenario in brackets: "please [read_edit]". The number of results since that prompt determines the next
// step, so the model keeps no state.

import { refuse, Scripted } from "./scripted.mjs"

const USAGE = {
  input_tokens: 1200,
  output_tokens: 34,
  total_tokens: 1234,
  input_tokens_details: { cached_tokens: 200 },
  output_tokens_details: { reasoning_tokens: 4 },
}

export class Responses extends Scripted {
  static base = "/v1"
  #count = 0

  constructor(scenarios) {
    super()
    this.scenarios = scenarios
  }

  async answer(request, text, response) {
    if (!request.url.endsWith("/responses")) return refuse(response, { status: 404, message: `nothing is at ${request.url}` })
    const call = JSON.parse(text)
    this.calls.push(call)
    const { acts, status, message } = this.#next(call)
    if (status) return refuse(response, { status, message })
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
      if (act.hold) await this.hold(response)
      if (item) send("response.output_item.done", { output_index: index, item })
      index += 1
    }
    if (response.destroyed) return
    send("response.completed", { response: { id: `resp_${number}`, usage: USAGE } })
    response.end()
  }

  // Returns the next step of a conversation.
  #next({ input }) {
    const prompt = input.findLastIndex((item) => isSaid(item) && this.#named(item))
    const steps = this.scenarios[this.#named(input[prompt])] ?? [{ acts: [{ say: "Hello." }] }]
    const results = input.slice(prompt + 1).filter((item) => item.type?.endsWith("_output"))
    return steps[Math.min(results.length, steps.length - 1)]
  }

  #named(item) {
    const text = [item?.content ?? []].flat().map((part) => part.text ?? part.encrypted_content ?? "").join("\n")
    const name = /\[([a-z_]+)\]/.exec(text)?.[1]
    return name in this.scenarios ? name : undefined
  }
}

// A message of the user, or of one agent to another.
const isSaid = ({ role, type }) => role === "user" || type === "agent_message"

// An item of the answer.
function made({ say, call, space, input, patch, script }, id) {
  if (say) {
    return { type: "message", role: "assistant", id: `msg_${id}`, content: [{ type: "output_text", text: say }] }
  }
  if (call) {
    const name = space ? { namespace: space, name: call } : { name: call }
    return { type: "function_call", id: `fc_${id}`, call_id: `call_${id}`, ...name, arguments: JSON.stringify(input) }
  }
  const free = (name, input) => ({ type: "custom_tool_call", id: `ctc_${id}`, call_id: `call_${id}`, name, input })
  if (patch) return free("apply_patch", patch)
  // Newer models call tools from a program.
  if (script) return free("exec", script)
}
