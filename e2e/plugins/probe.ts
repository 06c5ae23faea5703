// Records every hook call, changes something in each, and adds a tool.

import { appendFileSync } from "node:fs"
import path from "node:path"
import { tool, type Plugin } from "@opencode-ai/plugin"
import { mark } from "./lib/mark"

export const Probe: Plugin = async ({ client, project, directory, worktree, serverUrl, $ }, options) => {
  const note = (name: string, about: object = {}) =>
    appendFileSync(path.join(directory, "notes.jsonl"), JSON.stringify({ name, ...about }) + "\n")
  const { data: config } = await client.config.get()
  note("start", { project: project.id, worktree, port: serverUrl.port, options, model: config?.model })
  console.log("what a plugin prints goes nowhere near the protocol: {}")
  return {
    dispose: async () => note("dispose"),
    config: async (config) => {
      config.command = { ...config.command, probed: { template: "Say [simple] please." } }
      config.agent = { ...config.agent, prober: { description: "Probes", mode: "primary", prompt: "You probe." } }
    },
    event: async ({ event }) => note("event", { type: event.type, id: (event as { id?: string }).id }),
    "chat.message": async (input, output) => {
      note("chat.message", { sessionID: input.sessionID })
      const text = output.parts.find((part) => part.type === "text")
      if (text?.type === "text") text.text = mark(text.text, "asked")
    },
    "chat.params": async (input, output) => {
      note("chat.params", { agent: input.agent, model: input.model.id })
      output.temperature = 0.5
    },
    "tool.execute.before": async (input, output) => {
      note("tool.execute.before", { tool: input.tool })
      if (input.tool === "bash") output.args.command = "echo from the plugin"
    },
    "tool.execute.after": async (input, output) => {
      note("tool.execute.after", { tool: input.tool, args: input.args })
      output.output = mark(output.output, "seen")
    },
    "shell.env": async (_input, output) => {
      note("shell.env")
      output.env.PROBED = "yes"
    },
    "experimental.chat.messages.transform": async (_input, output) => note("messages.transform", { count: output.messages.length }),
    "experimental.chat.system.transform": async (_input, output) => {
      note("system.transform", { count: output.system.length })
      output.system.push("Be probed.")
    },
    "experimental.text.complete": async (input, output) => {
      note("text.complete", { partID: input.partID })
      output.text = mark(output.text, "complete")
    },
    tool: {
      weigh: tool({
        description: "Weighs a thing",
        args: {
          thing: tool.schema.string().describe("What to weigh"),
          times: tool.schema.number().default(2),
        },
        async execute(args, context) {
          context.metadata({ title: `weighing ${args.thing}` })
          if (args.thing === "gold") {
            await context.ask({ permission: "weigh", patterns: [args.thing], always: ["*"], metadata: {} })
          }
          const shown = await $`printf %s ${`a ${args.thing}; $HOME`}`.text()
          note("weigh", { sessionID: context.sessionID, messageID: context.messageID, agent: context.agent, directory: context.directory })
          return { title: "scales", output: `${shown} weighs ${args.times}`, metadata: { kind: "weight" } }
        },
      }),
    },
  }
}
