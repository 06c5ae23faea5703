// The changes that the review shows, read for one of four scopes. Separate from the screen, so that they are read while its
// code is loaded.

import { createEffect, createMemo, createResource, createSignal, on } from "solid-js"
import { call } from "./api.ts"
import { isBusy } from "./core/state.ts"
import type { FileDiff } from "./core/wire.ts"
import { route } from "./route.ts"
import { watch, world } from "./store.ts"

export const SCOPES = ["turn", "session", "tree", "branch"] as const
export type Scope = (typeof SCOPES)[number]

// Pages of messages that are read for the changes of a session.
const MAX_PAGES = 10
const PAGE = 100
// Lines around a change: as git shows them, and more.
const CONTEXT = 3
const MORE_CONTEXT = 20

interface Wanted {
  session: string
  directory?: string
  scope: Scope
  turn?: string
  context: number
}

// Reads the diffs of the prompts of a session, page by page, oldest first.
async function ofSession(sessionID: string): Promise<FileDiff[]> {
  const found: FileDiff[][] = []
  let before: string | undefined
  for (let page = 0; page < MAX_PAGES; page++) {
    const { data, headers } = await call("messages", { in: { sessionID }, query: { limit: PAGE, before } })
    const diffs = data.flatMap(({ info }) => (info.role === "user" ? (info.summary?.diffs ?? []) : []))
    found.unshift(diffs)
    before = headers.get("x-next-cursor") ?? undefined
    if (!before) break
  }
  return found.flat()
}

async function read({ session, directory, scope, turn, context }: Wanted): Promise<FileDiff[]> {
  if (scope === "session") return ofSession(session)
  if (scope === "turn") {
    if (!turn) return []
    return (await call("diff", { in: { sessionID: session }, query: { messageID: turn } })).data
  }
  const mode = scope === "tree" ? "git" : "branch"
  return (await call("vcsDiff", { query: { mode, context, directory } })).data
}

export type Source = ReturnType<typeof readChanges>

// Reads the changes of a session again when the address, the turn or the files change.
export function readChanges(session: () => string) {
  const [hasContext, setContext] = createSignal(false)
  const directory = createMemo(() => (watch(`session ${session()}`), world.sessions.get(session())?.info.directory))
  const scope = () => (SCOPES.find((it) => it === route().query.scope) ?? "turn") as Scope
  // The last prompt, unless the address names one.
  const turn = createMemo(() => {
    watch(`messages ${session()}`)
    const last = world.windows.get(session())?.entries.findLast((entry) => entry.info.role === "user")
    return route().query.turn ?? last?.info.id
  })
  // Nothing is read before the directory is known: without one, the server would answer for another.
  const wanted = createMemo<Wanted | undefined>(
    () => {
      const [now, where] = [scope(), directory()]
      if (where === undefined && (now === "tree" || now === "branch")) return undefined
      return { session: session(), directory: where, scope: now, turn: turn(), context: hasContext() ? MORE_CONTEXT : CONTEXT }
    },
    undefined,
    { equals: (before, now) => JSON.stringify(before) === JSON.stringify(now) },
  )
  const [found, { refetch }] = createResource(wanted, read)
  const busy = createMemo(() => (watch(`status ${session()}`), isBusy(world, session())))
  createEffect(on(() => (watch(`diff ${session()}`), busy()), () => void refetch(), { defer: true }))
  return { scope, directory, found, refetch: () => void refetch(), hasContext, setContext }
}
