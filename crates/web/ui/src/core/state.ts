// Answers to the questions that the screens ask about the world.

import { queueLength } from "./queue.ts"
import { isOpen } from "./transcript.ts"
import type { Waiting } from "./waiting.ts"
import type { Frame, Session, Status } from "./wire.ts"
import type { Request, World } from "./world.ts"

export type RowState = "needs" | "error" | "retrying" | "working" | "queued" | "done" | "idle"

const FAILURES = ["error", "blocked", "budget", "interrupted"]
// A chain of parents that is longer than this is a loop in the data.
const MAX_DEPTH = 64

export function rootOf(world: World, session: string): string {
  let root = session
  for (let depth = 0; depth < MAX_DEPTH; depth++) {
    const parent = world.sessions.get(root)?.info.parentID
    if (!parent) return root
    root = parent
  }
  return root
}

export const statusOf = (world: World, session: string): Status => world.status.get(session)?.status ?? { type: "idle" }

// The server's time, for countdowns to its moments.
export const serverNow = (world: World) => world.now + world.offset

export const isBusy = (world: World, session: string) => statusOf(world, session).type !== "idle"

// The time that a turn may take from busy to the start of its first prompt.
const STARTING_MS = 1_000

// True between busy and the start of the first prompt, if the page has seen the turn begin.
export function isStarting(world: World, session: string): boolean {
  const since = world.status.get(session)?.since ?? null
  const isAnswering = world.queues.get(session)?.isAnswering ?? false
  return isBusy(world, session) && since !== null && !isAnswering && world.now - since < STARTING_MS
}

// Prompts that wait behind the one that the turn answers. The prompt that a turn starts with does not wait.
export function waitingBehind(world: World, session: string): Waiting[] {
  if (!isBusy(world, session)) return []
  return (world.waiting.get(session) ?? []).slice(isStarting(world, session) ? 1 : 0)
}

// The session and everything below it.
export function family(world: World, session: string): string[] {
  const found = [session]
  for (let at = 0; at < found.length && found.length < 1_000; at++) {
    for (const child of world.children.get(found[at]!) ?? []) if (!found.includes(child)) found.push(child)
  }
  return found
}

// Open requests of a session and of its descendants, oldest first.
export function requestsOf(world: World, session: string): Request[] {
  const members = family(world, session)
  return [...world.requests.values()].filter(
    (request) => members.includes(request.sessionID) || request.rootID === session,
  )
}

// The most urgent state of a session. A finished or failed child never marks its parent.
export function rowState(world: World, session: string): RowState {
  if (requestsOf(world, session).length > 0) return "needs"
  const own = statusOf(world, session)
  const unread = world.unread.get(session)?.reason
  if (own.type === "idle" && unread && FAILURES.includes(unread)) return "error"
  const members = family(world, session).map((member) => statusOf(world, member).type)
  if (own.type === "retry") return "retrying"
  if (members.includes("busy")) return "working"
  if (members.includes("retry")) return "retrying"
  if (world.waiting.has(session)) return "queued"
  return world.unread.has(session) ? "done" : "idle"
}

export type Badge = "idle" | "unread" | "working" | "retrying" | "permission" | "question"

// The view of one session that the Rust client's `SessionView` has, for the cases that both are tested with.
export function viewOf(world: World, session: string) {
  const status = statusOf(world, session)
  const requests = requestsOf(world, session)
  const isUnread = world.unread.has(session)
  let badge: Badge = status.type === "busy" ? "working" : status.type === "retry" ? "retrying" : isUnread ? "unread" : "idle"
  if (requests.some((request) => request.kind === "permission")) badge = "permission"
  if (requests.some((request) => request.kind === "question")) badge = "question"
  return {
    activity: status.type,
    badge,
    requests: requests.map((request) => request.id),
    queue: queueLength(world.queues.get(session)),
    unread: isUnread,
    tokens: world.tokens.get(session) ?? null,
  }
}

// Root sessions, the latest activity first.
export function roots(world: World): Session[] {
  const found = [...world.sessions.values()].map((entry) => entry.info)
  return found
    .filter((info) => !info.parentID && !info.time.archived)
    .sort((left, right) => right.time.updated - left.time.updated || (left.id < right.id ? 1 : -1))
}

// The state as the frames of an opening statement, for a tab that does not read the stream itself.
export function statement(world: World): Frame[] {
  const frames: Frame[] = []
  const say = (type: string, properties: unknown) => frames.push({ event: { type, properties } })
  for (const [sessionID, { status }] of world.status) {
    if (status.type !== "idle") say("session.status", { sessionID, status })
  }
  for (const [sessionID, countdown] of world.countdowns) say("continuation.countdown", { sessionID, ...countdown })
  for (const request of world.requests.values()) say(`${request.kind}.asked`, request.body)
  for (const window of world.windows.values()) {
    for (const entry of window.entries) {
      for (const { part, connection } of entry.parts) {
        if (connection === world.connection && isOpen(part)) say("message.part.updated", { part })
      }
    }
  }
  return frames
}

// Everything that a fresh client would know at the same point: for comparing two histories of inputs.
export function snapshot(world: World) {
  const byKey = <T>(entries: Iterable<[string, T]>) =>
    Object.fromEntries([...entries].sort(([left], [right]) => (left < right ? -1 : 1)))
  const busy = [...world.status].filter(([, entry]) => entry.status.type !== "idle")
  return {
    sessions: byKey([...world.sessions].map(([id, entry]) => [id, entry.info])),
    status: byKey(busy.map(([id, entry]) => [id, entry.status])),
    requests: [...world.requests.keys()].sort(),
    messages: byKey(
      [...world.windows]
        .filter(([, window]) => !window.partial && window.entries.length > 0)
        .map(([id, window]) => [
          id,
          window.entries.map((entry) => ({ info: entry.info, parts: entry.parts.map(({ part }) => part) })),
        ]),
    ),
  }
}
