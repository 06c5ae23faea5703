// A session, its ancestors and its descendants.

import { family, isBusy, requestsOf, rowState, statusOf } from "./state.ts"
import type { Part, Session } from "./wire.ts"
import type { World } from "./world.ts"

// A chain of parents that is longer than this is a loop in the data.
const MAX_DEPTH = 64

// The sessions above this one, the root first.
export function ancestors(world: World, session: string): string[] {
  const found: string[] = []
  for (let at = world.sessions.get(session)?.info.parentID; at && found.length < MAX_DEPTH; ) {
    found.unshift(at)
    at = world.sessions.get(at)?.info.parentID
  }
  return found
}

export function childrenOf(world: World, session: string): Session[] {
  const found = [...(world.children.get(session) ?? [])].flatMap((id) => world.sessions.get(id)?.info ?? [])
  return found.sort((left, right) => left.time.created - right.time.created || (left.id < right.id ? -1 : 1))
}

// The sessions before and after this one among the children of its parent.
export function siblings(world: World, session: string) {
  const parent = world.sessions.get(session)?.info.parentID
  const all = parent ? childrenOf(world, parent).map((info) => info.id) : []
  const at = all.indexOf(session)
  return { before: all[at - 1], after: at < 0 ? undefined : all[at + 1], index: at + 1, count: all.length }
}

export interface Totals {
  sessions: number
  working: number
  input: number
  output: number
  cost: number
}

// Tokens and cost of a session and everything below it.
export function totals(world: World, session: string): Totals {
  const members = family(world, session)
  const sum = { sessions: members.length, working: 0, input: 0, output: 0, cost: 0 }
  for (const member of members) {
    const info = world.sessions.get(member)?.info
    if (member !== session && isBusy(world, member)) sum.working++
    sum.input += (info?.tokens?.input ?? 0) + (info?.tokens?.cache.read ?? 0) + (info?.tokens?.cache.write ?? 0)
    sum.output += info?.tokens?.output ?? 0
    sum.cost += info?.cost ?? 0
  }
  return sum
}

// The tool that a session runs now, or ran last, as far as its open parts tell.
export function currentTool(world: World, session: string): Part | undefined {
  const parts = world.windows.get(session)?.entries.flatMap((entry) => entry.parts.map(({ part }) => part)) ?? []
  return parts.findLast((part) => part.type === "tool" && part.state?.status === "running")
}

export function summary(world: World, session: string) {
  const todos = world.todos.get(session) ?? []
  const done = todos.filter((todo) => todo.status === "completed" || todo.status === "cancelled").length
  return {
    state: rowState(world, session),
    status: statusOf(world, session),
    requests: requestsOf(world, session).length,
    todos: { done, count: todos.length },
    tool: currentTool(world, session),
    totals: totals(world, session),
  }
}
