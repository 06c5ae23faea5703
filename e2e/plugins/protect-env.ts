// An ordinary OpenCode plugin that keeps tools away from files with secrets: it forbids a call by throwing.

import type { Plugin } from "@opencode-ai/plugin"

export const ProtectEnv: Plugin = async () => ({
  "tool.execute.before": async (input, output) => {
    if (input.tool === "read" && output.args.filePath.endsWith(".env")) throw new Error("Do not read .env files")
    if (input.tool === "bash" && output.args.command.includes(".env")) throw new TypeError("Nor with a command")
  },
})
