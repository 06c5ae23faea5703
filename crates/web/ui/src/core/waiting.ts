// Prompts that wait for a turn, in the order in which turns take them up.
//
// Events add and remove them one at a time. A read of the queue, or the event about a changed order, replaces the list.

import type { World } from "./world.ts"

export interface Waiting {
  id: string
  delivery: "steer" | "queue"
}

export interface WireWaiting {
  messageID: string
  delivery?: string
}

const tell = (session: string, changed: Set<string>) => {
  changed.add(`queue ${session}`)
  changed.add(`messages ${session}`)
  changed.add("list")
}

const read = ({ messageID, delivery }: WireWaiting): Waiting => ({
  id: messageID,
  delivery: delivery === "queue" ? "queue" : "steer",
})

export function enqueue(world: World, session: string, prompt: WireWaiting, changed: Set<string>) {
  const known = world.waiting.get(session) ?? []
  if (known.some(({ id }) => id === prompt.messageID)) return
  world.waiting.set(session, [...known, read(prompt)])
  tell(session, changed)
}

export function dequeue(world: World, session: string, prompt: string, changed: Set<string>) {
  const known = world.waiting.get(session)
  if (!known?.some(({ id }) => id === prompt)) return
  const rest = known.filter(({ id }) => id !== prompt)
  if (rest.length > 0) world.waiting.set(session, rest)
  else world.waiting.delete(session)
  tell(session, changed)
}

export function reorder(world: World, session: string, queue: WireWaiting[], changed: Set<string>) {
  world.queueTicks.set(session, world.tick)
  if (queue.length > 0) world.waiting.set(session, queue.map(read))
  else world.waiting.delete(session)
  tell(session, changed)
}
