// Plain JavaScript: forbids commands, and shows the abilities of the plugin host.

import { writeFileSync } from "node:fs"
import path from "node:path"

export const Guard = async ({ directory }, options) => {
  const about = { options, tool: typeof Bun.which("sh"), none: Bun.which("no-such-program"), agent: process.env.OPENCODE }
  writeFileSync(path.join(directory, "guard.json"), JSON.stringify(about))
  return {
    "tool.execute.before": async ({ tool }) => {
      if (tool === "bash") throw new Error("No commands here")
    },
  }
}
