// Ends of turns that the user has not seen, and marks of other tabs and devices.

import { noticeEnd } from "./notices.ts"
import type { EndReason } from "./wire.ts"
import type { World } from "./world.ts"

export function ended(world: World, session: string, reason: EndReason | null, since: number | null, changed: Set<string>) {
  const id = world.cursor ?? 0
  changed.add("marks")
  world.ends.set(session, { reason, id })
  if (world.watched === session) {
    world.seen.set(session, id)
    owe(world, session)
  }
  // An end of an event that another tab has shown already.
  else if (id === 0 || id > (world.seen.get(session) ?? -1)) world.unread.set(session, { reason, id })
  noticeEnd(world, session, reason, since)
}

export function look(world: World, session: string | null, changed: Set<string>) {
  world.watched = session
  if (!session) return
  owe(world, session)
  markSeen(world, session, Math.max(world.cursor ?? 0, world.unread.get(session)?.id ?? 0), changed)
}

// The server is told that the user has seen everything so far, unless it knows of the newest end.
function owe(world: World, session: string) {
  const id = Math.max(world.ends.get(session)?.id ?? 0, world.unread.get(session)?.id ?? 0)
  const known = world.sessions.get(session)?.info.seen ?? 0
  if (id > known) world.owed.set(session, Math.max(id, world.cursor ?? world.position))
}

// Another device has shown the session, or its user has marked it as unread.
export function seenElsewhere(world: World, session: string, cursor: number, changed: Set<string>) {
  const known = world.sessions.get(session)
  if (known) world.sessions.set(session, { ...known, info: { ...known.info, seen: cursor } })
  const end = world.ends.get(session)
  // Without a known end only a position before every event is certain to be a mark of the user.
  if (cursor >= (end?.id ?? 1)) return markSeen(world, session, cursor, changed)
  if (world.unread.has(session)) return
  world.unread.set(session, { reason: end?.reason ?? null, id: end?.id ?? 1, isAsked: true })
  changed.add("list").add(`status ${session}`).add("marks")
}

export function markSeen(world: World, session: string, id: number, changed: Set<string>) {
  if (id > (world.seen.get(session) ?? -1)) world.seen.set(session, id)
  changed.add("marks")
  const unread = world.unread.get(session)
  if (!unread || unread.id > id) return
  world.unread.delete(session)
  changed.add("list").add(`status ${session}`)
}
