// An ordinary OpenCode plugin that commits the changes of a turn, once, when the session becomes idle.

import type { Plugin } from "@opencode-ai/plugin"

type Spoken = { info: { id: string; role: string; parentID?: string }; parts: { type: string; text?: string }[] }

const textOf = (messages: Spoken[]): string =>
  messages
    .flatMap((message) => message.parts)
    .filter((part) => part.type === "text")
    .map((part) => part.text ?? "")
    .join("\n")

/** The newest prompt and everything that answers it. */
function lastTurn(messages: Spoken[]) {
  const prompt = messages.findLast((message) => message.info.role === "user")
  if (!prompt) return undefined
  const answers = messages.filter((message) => message.info.role === "assistant" && message.info.parentID === prompt.info.id)
  return { id: prompt.info.id, prompt: textOf([prompt]), answer: textOf(answers) }
}

export const AutoCommit: Plugin = async ({ client, $, directory }) => {
  let committed: string | undefined
  return {
    event: async ({ event }) => {
      if (event.type !== "session.idle") return
      const { data } = await client.session.messages({ path: { id: event.properties.sessionID } })
      const turn = lastTurn((data ?? []) as Spoken[])
      if (!turn || turn.id === committed) return
      committed = turn.id
      const changed = await $`git status --porcelain`.cwd(directory).quiet().text()
      if (!changed.trim()) return
      const message = `${turn.prompt.split("\n")[0]}\n\n## Prompt\n${turn.prompt}\n\n## Answer\n${turn.answer}`
      await $`git add -A`.cwd(directory).quiet()
      await $`git commit -m ${message}`.cwd(directory).quiet()
    },
  }
}
