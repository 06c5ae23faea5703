// An ordinary OpenCode plugin that adds a reminder to an answer that ends with open todos.

import type { Plugin } from "@opencode-ai/plugin"

enum Done {
  Completed = "completed",
  Cancelled = "cancelled",
}

const isOpen = (status: string): boolean => !(Object.values(Done) as string[]).includes(status)

export default {
  id: "open-todos",
  server: (async ({ client }, options) => ({
    "experimental.text.complete": async (input, output) => {
      const { data } = await client.session.todo({ path: { id: input.sessionID } })
      const open = (data ?? []).filter((todo) => isOpen(todo.status))
      if (open.length === 0) return
      const lines = open.map((todo) => `- [ ] ${todo.content} (${todo.status})`)
      output.text += [``, ``, `[${options?.title ?? "REMINDER"}]`, ...lines].join("\n")
    },
  })) satisfies Plugin,
}
