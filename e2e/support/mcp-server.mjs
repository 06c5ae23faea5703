// A small MCP server over standard input and output, with one tool. Its first argument names a file for its process id.

import { writeFileSync } from "node:fs"
import { createInterface } from "node:readline"

const ANSWERS = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "greeter", version: "1.0.0" },
  }),
  "tools/list": () => ({
    tools: [{ name: "greet", description: "Greets", inputSchema: { type: "object", properties: { name: { type: "string" } } } }],
  }),
  "tools/call": ({ arguments: { name } }) => ({ content: [{ type: "text", text: `Good morning, ${name}` }] }),
  ping: () => ({}),
}

writeFileSync(process.argv[2], String(process.pid))
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line)
  // A notification has no id and gets no answer.
  if (id === undefined) continue
  const answer = ANSWERS[method]
  const outcome = answer ? { result: answer(params ?? {}) } : { error: { code: -32601, message: `unknown method ${method}` } }
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...outcome })}\n`)
}
