// Commits the changes of a turn, with its prompt and its answer. It uses the code of docs/plugins.md, which skips the messages
// with which a turn continues by itself.

import type { Plugin } from "@opencode-ai/plugin"

type Spoken = { info: { id: string; role: string; continues?: string; summary?: unknown }; parts: { type: string; text?: string }[] }

const textOf = (messages: Spoken[]): string =>
  messages.flatMap(({ parts }) => parts).filter(({ type }) => type === "text").map(({ text }) => text ?? "").join("\n")

/** The newest prompt of the user, and everything that answers it. */
function lastTurn(messages: Spoken[]) {
  const at = messages.findLastIndex(({ info }) => info.role === "user" && !info.continues)
  if (at < 0) return undefined
  const answers = messages.slice(at + 1).filter(({ info }) => info.role === "assistant" && info.summary !== true)
  return { id: messages[at].info.id, prompt: textOf([messages[at]]), answer: textOf(answers) }
}

export const AutoCommit: Plugin = async ({ client, $, directory }) => {
  let committed: string | undefined
  return {
    event: async ({ event }) => {
      if (event.type !== "session.idle") return
      const { sessionID } = event.properties
      const { data } = await (client.session.messages as Function)({ sessionID })
      const turn = lastTurn(data ?? [])
      if (!turn || turn.id === committed) return
      committed = turn.id
      console.log("User prompt:", turn.prompt)
      const message = `${turn.prompt}\n\n## Answer\n${turn.answer}`
      await $`git add -A`.cwd(directory).quiet()
      await $`git commit --allow-empty -m ${message}`.cwd(directory).quiet()
    },
  }
}
