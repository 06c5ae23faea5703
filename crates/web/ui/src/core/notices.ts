// Events that are news of a root session: a request, and the end of a turn.
//
// The fold collects them in every tab. Only the tab that holds the stream shows them, so each is shown once. Events of
// the opening statement are no news: the page shows their state.

import type { EndReason } from "./wire.ts"
import type { World } from "./world.ts"

export interface Notice {
  // The same in every tab, and for every repetition of the event.
  key: string
  // `brief` is a turn that completed soon: a screen reader tells it, a notification does not.
  kind: "request" | "failed" | "completed" | "brief"
  // The root session.
  session: string
  request?: string
  reason?: EndReason
}

// A turn that completes sooner causes no notification: the user is still looking.
export const LONG_TURN_MS = 10_000
// The most notices that wait to be shown; the oldest go first.
const MAX_NOTICES = 100

const FAILURES: EndReason[] = ["error", "blocked", "budget", "interrupted"]

function add(world: World, notice: Notice) {
  if (!world.isKnown) return
  world.notices.push(notice)
  if (world.notices.length > MAX_NOTICES) world.notices.shift()
}

export function noticeRequest(world: World, root: string, request: string) {
  add(world, { key: `${root} ${request}`, kind: "request", session: root, request })
}

// `since` is the beginning of the turn; null if the page did not see it.
export function noticeEnd(world: World, session: string, reason: EndReason | null | undefined, since: number | null) {
  const isChild = world.sessions.get(session)?.info.parentID !== undefined
  if (isChild || world.cursor === null || !reason) return
  const key = `${session} ${world.cursor}`
  if (FAILURES.includes(reason)) add(world, { key, kind: "failed", session, reason })
  const isLong = since === null || world.now - since > LONG_TURN_MS
  if (reason === "completed") add(world, { key, kind: isLong ? "completed" : "brief", session, reason })
}
