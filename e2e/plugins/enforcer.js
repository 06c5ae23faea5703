// Continues a session that is idle with open todos, as enforcers for OpenCode do; and passes on a finding, as plugins with
// background tasks do.

import { appendFileSync } from "node:fs"
import path from "node:path"

export const Enforcer = async ({ client, directory }) => {
  const note = (about) => appendFileSync(path.join(directory, "notes.jsonl"), `${JSON.stringify(about)}\n`)
  const told = new Set()
  return {
    event: async ({ event }) => {
      if (event.type !== "session.idle") return
      const { sessionID: id } = event.properties
      const { data: todos } = await client.session.todo({ path: { id } })
      const isOpen = todos.some(({ status }) => !["completed", "cancelled"].includes(status))
      if (!isOpen || told.has(id)) return
      told.add(id)
      const send = (part) => client.session.promptAsync({ path: { id }, body: { parts: [{ type: "text", ...part }] } })
      const pushed = await send({ text: "Continue with the next pending task.", synthetic: true })
      note({ name: "pushed", status: pushed.response.status, error: pushed.error })
      const found = await send({ text: "A background task has ended." })
      note({ name: "found", status: found.response.status })
    },
  }
}
