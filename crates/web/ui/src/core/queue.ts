// Prompts that wait behind the one being answered, derived from messages. It works with servers that send no prompt
// events, and follows the same rules as the Rust client's `SessionView`.

import type { Message } from "./wire.ts"
import { MAX_BEGUN, type Queue, type World } from "./world.ts"

export function queueOf(world: World, session: string): Queue {
  let found = world.queues.get(session)
  if (!found) {
    found = { waiting: [], begun: [], isAnswering: false }
    world.queues.set(session, found)
  }
  return found
}

// The first prompt of a turn is stored before the event that its answer begins.
export const queueLength = (queue: Queue | undefined) =>
  queue ? Math.max(0, queue.waiting.length - (queue.isAnswering ? 0 : 1)) : 0

function note(queue: Queue, prompts: string[]) {
  queue.begun.push(...prompts)
  queue.begun.splice(0, queue.begun.length - MAX_BEGUN)
}

export function begin(queue: Queue, prompt: string) {
  queue.isAnswering = true
  const at = queue.waiting.indexOf(prompt)
  if (at >= 0) note(queue, queue.waiting.splice(0, at + 1))
  else if (!queue.begun.includes(prompt)) note(queue, [prompt])
}

export function leave(queue: Queue, prompt: string) {
  queue.waiting = queue.waiting.filter((waiting) => waiting !== prompt)
}

export function finish(queue: Queue) {
  note(queue, queue.waiting.splice(0))
  queue.isAnswering = false
}

export function hear(queue: Queue, message: Message) {
  if (message.role === "assistant") begin(queue, message.parentID)
  // A prompt that continues a turn by itself never waits.
  else if (message.continues === undefined && !queue.waiting.includes(message.id) && !queue.begun.includes(message.id))
    queue.waiting.push(message.id)
}
