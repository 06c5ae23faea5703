// Sessions as the overview and the page of what needs the user show them.

import { type RowState, family, requestsOf, rootOf, roots, rowState } from "./state.ts"
import type { Session, Todo } from "./wire.ts"
import type { Request, World } from "./world.ts"

const ORDER: RowState[] = ["needs", "error", "retrying", "working", "queued", "done", "idle"]

// The most idle sessions in the overview; the list has all of them.
export const MAX_IDLE = 24

export interface Tile {
  info: Session
  state: RowState
}

// All sessions that are not idle, then the latest idle ones.
export function tiles(world: World, directory?: string): { shown: Tile[]; left: number } {
  const all = roots(world)
    .filter((info) => directory === undefined || info.directory === directory)
    .map((info) => ({ info, state: rowState(world, info.id) }))
  const live = all.filter(({ state }) => state !== "idle")
  const idle = all.filter(({ state }) => state === "idle")
  return { shown: [...live, ...idle.slice(0, MAX_IDLE)], left: Math.max(0, idle.length - MAX_IDLE) }
}

// Groups by state, the most urgent first, or by directory, the most urgent session first.
export function groups(shown: Tile[], by: "state" | "project"): { key: string; tiles: Tile[] }[] {
  const sorted = [...shown].sort((left, right) => ORDER.indexOf(left.state) - ORDER.indexOf(right.state))
  const found = new Map<string, Tile[]>()
  for (const tile of sorted) {
    const key = by === "state" ? tile.state : tile.info.directory
    found.set(key, [...(found.get(key) ?? []), tile])
  }
  return [...found].map(([key, own]) => ({ key, tiles: own }))
}

// The last line of a text that says something: fences of code do not.
const lastLine = (text: string) => text.split("\n").findLast((line) => line.trim() !== "" && !/^\s*(```|~~~)/.test(line))

// The latest thing that a session does: its running tool, or the last line of its text.
export function latest(world: World, session: string): { tool?: string; since?: number; text: string } {
  for (const member of family(world, session)) {
    const entries = world.windows.get(member)?.entries ?? []
    for (const { parts } of entries.toReversed()) {
      for (const { part } of parts.toReversed()) {
        if (part.type === "tool" && part.state?.status === "running") {
          return { tool: part.tool ?? "", since: part.state.time?.start, text: part.state.title ?? "" }
        }
        const line = part.type === "text" && !part.synthetic ? lastLine(part.text ?? "") : undefined
        if (line) return { text: line }
      }
    }
  }
  return { text: "" }
}

export const progress = (todos: Todo[] | undefined) =>
  todos && todos.length > 0 ? { done: todos.filter((todo) => todo.status === "completed").length, all: todos.length } : undefined

export interface Needs {
  // Root sessions with open requests, the oldest request first.
  requests: { root: string; requests: Request[] }[]
  failed: Session[]
  finished: Session[]
}

export function needs(world: World): Needs {
  const asking = [...new Set([...world.requests.values()].map((request) => request.rootID ?? rootOf(world, request.sessionID)))]
  const rest = roots(world).filter((info) => !asking.includes(info.id))
  return {
    requests: asking.map((root) => ({ root, requests: requestsOf(world, root) })),
    failed: rest.filter((info) => rowState(world, info.id) === "error"),
    finished: rest.filter((info) => rowState(world, info.id) === "done"),
  }
}
