// Tokens and cost of a step, a turn, a session, its family and its project. A missing number stays missing.

import { readTokens } from "./tokens.ts"
import { family } from "./state.ts"
import type { Tokens } from "./wire.ts"
import type { World } from "./world.ts"

export interface Total {
  tokens?: Tokens
  cost?: number
}

const plus = (left: Tokens, right: Tokens): Tokens => ({
  input: left.input + right.input,
  output: left.output + right.output,
  reasoning: left.reasoning + right.reasoning,
  cache: { read: left.cache.read + right.cache.read, write: left.cache.write + right.cache.write },
})

export function add(totals: Total[]): Total {
  const tokens = totals.map((total) => total.tokens).filter((it) => it !== undefined)
  const costs = totals.map((total) => total.cost).filter((it) => it !== undefined)
  return {
    tokens: tokens.length > 0 ? tokens.reduce(plus) : undefined,
    cost: costs.length > 0 ? costs.reduce((left, right) => left + right, 0) : undefined,
  }
}

const ofSession = (world: World, id: string): Total => {
  const info = world.sessions.get(id)?.info
  return { tokens: info?.tokens, cost: info?.cost }
}

// Steps since the last prompt, oldest first.
function steps(world: World, session: string): Total[] {
  const entries = world.windows.get(session)?.entries ?? []
  const last = entries.findLastIndex(({ info }) => info.role === "user")
  return entries.slice(last + 1).flatMap(({ info }) => {
    if (info.role !== "assistant") return []
    return [{ tokens: info.tokens ? readTokens(info.tokens) : undefined, cost: info.cost }]
  })
}

export function totals(world: World, session: string): Record<"step" | "turn" | "session" | "family" | "project", Total> {
  const turn = steps(world, session)
  const directory = world.sessions.get(session)?.info.directory
  const project = [...world.sessions.values()].filter(({ info }) => info.directory === directory)
  return {
    step: turn.at(-1) ?? {},
    turn: add(turn),
    session: ofSession(world, session),
    family: add(family(world, session).map((member) => ofSession(world, member))),
    project: add(project.map(({ info }) => ofSession(world, info.id))),
  }
}

// Tokens that the last step has put into the model's context.
export const contextOf = (tokens: Tokens | undefined) =>
  tokens ? tokens.input + tokens.cache.read + tokens.cache.write : undefined

// The context of the newest step that tells it. A step that has only begun tells nothing, and the number stays until it does.
export function contextIn(world: World, session: string): number | undefined {
  const entries = world.windows.get(session)?.entries ?? []
  const told = ({ info }: (typeof entries)[number]) => (info.role === "assistant" && info.tokens ? contextOf(readTokens(info.tokens)) : undefined)
  const last = entries.findLast((entry) => (told(entry) ?? 0) > 0)
  return last && told(last)
}

// The level of a full context: from 60, 80 and 90 per cent on.
export function level(share: number): "low" | "raised" | "high" | "full" {
  if (share >= 0.9) return "full"
  if (share >= 0.8) return "high"
  return share >= 0.6 ? "raised" : "low"
}
