// Unread turns. A session is read when the user has looked at its end for a moment; all tabs of the browser agree, and so do
// other devices, through the server.

import { createEffect, createSignal, onCleanup } from "solid-js"
import { call } from "./api.ts"
import type { Unread } from "./core/world.ts"
import { give, onFold, world } from "./store.ts"

// The time after which the user has seen what is on the screen.
const SEEN_MS = 1_000
// The most sessions whose marks are stored; the oldest events go first.
const MAX_MARKS = 500
const NAME = "baton marks"

interface Mark {
  seen?: number
  unread?: Unread
}

function read(): Record<string, Mark> {
  try {
    const found = JSON.parse(localStorage.getItem(NAME) ?? "{}")
    return typeof found === "object" && found ? found : {}
  } catch {
    return {}
  }
}

function write() {
  const marks = read()
  for (const [session, seen] of world.seen) marks[session] = { ...marks[session], seen: Math.max(seen, marks[session]?.seen ?? 0) }
  for (const [session, unread] of world.unread) marks[session] = { ...marks[session], unread }
  for (const [session, mark] of Object.entries(marks)) if (mark.unread && !world.unread.has(session)) delete mark.unread
  const newest = (mark: Mark) => Math.max(mark.seen ?? 0, mark.unread?.id ?? 0)
  const kept = Object.entries(marks).sort(([, left], [, right]) => newest(right) - newest(left))
  try {
    localStorage.setItem(NAME, JSON.stringify(Object.fromEntries(kept.slice(0, MAX_MARKS))))
  } catch {
    // Without storage the marks last as long as the page.
  }
}

// Takes over the marks of other tabs, or of the page before a reload.
function adopt(isFirst: boolean) {
  for (const [session, { seen, unread }] of Object.entries(read())) {
    if (seen !== undefined && seen > (world.seen.get(session) ?? -1)) give({ kind: "seen", session, id: seen })
    const isNews = unread && !world.unread.has(session) && session !== world.watched
    if (isNews && (isFirst || unread.isAsked)) give({ kind: "unread", session, unread })
  }
}

export function startMarks() {
  adopt(true)
  onFold((changed) => {
    if (changed.has("marks")) write()
    tellServer()
  })
  window.addEventListener("storage", (event) => event.key === NAME && adopt(false))
}

// Tells the server what the user has seen here. A call that fails is not repeated: the next look tells more.
function tellServer() {
  for (const [sessionID, cursor] of world.owed) {
    world.owed.delete(sessionID)
    void call("seen", { in: { sessionID }, body: { cursor } }).catch(() => {})
  }
}

const [isFocused, setFocused] = createSignal(isLooking())

function isLooking() {
  return !document.hidden && document.hasFocus()
}

for (const type of ["focus", "blur", "pageshow"]) window.addEventListener(type, () => setFocused(isLooking()))
document.addEventListener("visibilitychange", () => setFocused(isLooking()))

export { isFocused }

// The session that the user has marked as unread stays so until it is opened anew.
const [kept, setKept] = createSignal<string | null>(null)

export function markUnread(session: string) {
  setKept(session)
  give({ kind: "watch", session: null })
  const { unread } = world
  give({ kind: "unread", session, unread: { reason: unread.get(session)?.reason ?? null, id: world.cursor ?? 0, isAsked: true } })
  // A position before every event makes the session unread on other devices.
  void call("seen", { in: { sessionID: session }, body: { cursor: 0 } }).catch(() => {})
}

// Watches a session for as long as its view exists: the fold then knows what the user looks at.
export function trackSeen(session: string, isAtEnd: () => boolean) {
  setKept(null)
  createEffect(() => {
    if (!isFocused() || !isAtEnd() || kept() === session) {
      give({ kind: "watch", session: null })
      return
    }
    const timer = setTimeout(() => give({ kind: "watch", session }), SEEN_MS)
    onCleanup(() => clearTimeout(timer))
  })
  onCleanup(() => world.watched === session && give({ kind: "watch", session: null }))
}
