// A scripted model that speaks Anthropic's dialect, for Claude Code.
//
// A prompt names its scenario in double brackets, and its file: "please [[edit]] /project/README.md". The number of answers
// since that prompt determines the next step, so the model keeps no state.

import { refuse, Scripted } from "./scripted.mjs"

// Starts a subagent.
const delegate = (prompt, run_in_background = false) => [
  [{ call: "Agent", input: { description: "Do it", prompt, subagent_type: "general-purpose", run_in_background } }],
  [{ say: "It is done." }],
]

// Each step is a list of texts and calls, or a refusal.
const scenarios = {
  hello: () => [[{ say: "Hello from the scripted model." }]],
  edit: (file) => [
    [{ say: "Let me read it." }, { call: "Read", input: { file_path: file } }],
    [
      { say: "Now I add a line." },
      { call: "Edit", input: { file_path: file, old_string: "End of file.\n", new_string: "End of file.\nAdded.\n" } },
    ],
    [{ say: "Done." }],
  ],
  // Stops with an open todo, and finishes when Baton asks it to continue.
  unfinished: () => [
    [{ call: "TaskCreate", input: { subject: "Work", description: "Do the work" } }],
    [{ say: "Planned." }],
    [{ call: "TaskUpdate", input: { taskId: "1", status: "completed" } }],
    [{ say: "All done." }],
  ],
  hold: () => [[{ say: "I begin " }, { hold: true }, { say: "and end." }]],
  permission: () => [[{ call: "Bash", input: { command: "touch asked.txt" } }], [{ say: "The file is there." }]],
  stall: () => [[{ call: "Bash", input: { command: "sleep 4242" } }], [{ say: "It is over." }]],
  refused: () => [{ status: 400, message: "scripted refusal" }],
  hello_below: () => delegate("Say it [[hello]]"),
  permission_below: () => delegate("Do it [[permission]]"),
  hold_below: () => delegate("Wait [[hold]]"),
  background: () => delegate("Say it [[hello]]", true),
}

export class Anthropic extends Scripted {
  static base = ""
  #messages = 0

  async answer(request, text, response) {
    const { pathname } = new URL(request.url, this.url)
    if (request.method !== "POST" || pathname !== "/v1/messages") {
      response.writeHead(pathname.endsWith("count_tokens") ? 200 : 404, { "content-type": "application/json" })
      response.end(JSON.stringify({ input_tokens: 100 }))
      return
    }
    const call = JSON.parse(text)
    this.calls.push(call)
    const acts = next(call)
    if (acts.status) return refuse(response, acts)
    const id = `msg_${(this.#messages += 1)}`
    const usage = { input_tokens: 100, output_tokens: 1 }
    const message = { id, type: "message", role: "assistant", model: call.model, content: [], stop_reason: null, usage }
    const stop_reason = acts.some(({ call }) => call) ? "tool_use" : "end_turn"
    if (!call.stream) {
      const content = acts.filter(({ hold }) => !hold).map((act, index) => block(act, `${id}_${index}`, true))
      response.writeHead(200, { "content-type": "application/json" })
      response.end(JSON.stringify({ ...message, content, stop_reason }))
      return
    }
    response.writeHead(200, { "content-type": "text/event-stream" })
    const send = (type, data) => response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`)
    send("message_start", { message })
    let index = 0
    for (const act of acts) {
      if (act.hold) {
        await this.hold(response)
        continue
      }
      send("content_block_start", { index, content_block: block(act, `toolu_${id}_${index}`, false) })
      send("content_block_delta", { index, delta: delta(act) })
      send("content_block_stop", { index })
      index += 1
    }
    if (response.destroyed) return
    send("message_delta", { delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 20 } })
    send("message_stop", {})
    response.end()
  }
}

function block({ say, call, input }, id, whole) {
  if (call) return { type: "tool_use", id, name: call, input: whole ? input : {} }
  return { type: "text", text: whole ? say : "" }
}

function delta({ say, call, input }) {
  if (call) return { type: "input_json_delta", partial_json: JSON.stringify(input) }
  return { type: "text_delta", text: say }
}

// Returns the next step of a conversation. A call without tools belongs to no scenario, such as one for a title.
function next({ messages, tools }) {
  const prompt = messages.findLastIndex((message) => message.role === "user" && named(message))
  if (!tools?.length || prompt < 0) return [{ say: "A scripted answer" }]
  const [name, file] = named(messages[prompt])
  const steps = scenarios[name](file)
  const done = messages.slice(prompt + 1).filter((message) => message.role === "assistant").length
  return steps[Math.min(done, steps.length - 1)]
}

function named({ content }) {
  const text = typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("\n")
  const found = [...text.matchAll(/\[\[([a-z_]+)\]\](?: (\S+))?/g)].at(-1)
  return found && scenarios[found[1]] ? found.slice(1) : undefined
}
