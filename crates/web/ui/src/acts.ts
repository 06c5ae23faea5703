// Commands of the page itself: stop a turn, and summarise a conversation.

import { createEffect, createRoot } from "solid-js"
import { call } from "./api.ts"
import { isBusy } from "./core/state.ts"
import { type Choice, watch, world } from "./store.ts"

// Stops the turn, and pauses its continuation until the next prompt, as in a chat.
export async function stopTurn(session: string) {
  await call("continuation", { in: { sessionID: session }, body: { action: "stop" } })
  if (isBusy(world, session)) await call("abort", { in: { sessionID: session } })
}

// Asks for a summary. The server answers at the end of its turn, which the stream tells as well.
export async function summarise(session: string, model: Choice | undefined): Promise<boolean> {
  if (!model || !world.windows.get(session)?.entries.length) return false
  const ended = call("summarize", { in: { sessionID: session }, body: model })
  await Promise.race([ended, untilBusy(session)])
  return true
}

// Resolves when the stream shows that a turn runs.
const untilBusy = (session: string) =>
  new Promise<void>((resolve) => {
    createRoot((dispose) => {
      createEffect(() => {
        watch(`status ${session}`)
        if (!isBusy(world, session)) return
        resolve()
        queueMicrotask(dispose)
      })
    })
  })
