// The user's arrangement of the list: pinned sessions, its width, chosen rows, and deletions that can still be undone.

import { createSignal } from "solid-js"
import { call } from "./api.ts"
import { fitWidth } from "./core/select.ts"
import { stored } from "./kept.ts"
import { go, route } from "./route.ts"
import { give, world } from "./store.ts"

// The most sessions that are pinned; the oldest pins go first.
const MAX_PINS = 100
// A deletion takes effect after this time.
export const UNDO_MS = 10_000

const [pins, savePins] = stored<string[]>("pinned", [])
export const isPinned = (session: string) => pins().includes(session)

export function setPinned(sessions: string[], isPinned: boolean) {
  const others = pins().filter((id) => !sessions.includes(id))
  savePins(isPinned ? [...others, ...sessions].slice(-MAX_PINS) : others)
}

const [width, saveWidth] = stored("list-width", 0)
// 0 until the user has moved the edge: the list then follows the width of the window.
export const listWidth = () => (width() === 0 ? undefined : fitWidth(width()))
export const setListWidth = (pixels: number) => saveWidth(fitWidth(pixels))
export const [isRail, setRail] = stored("rail", false)

export const [selected, setSelected] = createSignal<string[]>([])

// The session that the user has prompted last, a new object for each prompt. It moves to the top of the list.
export const [prompted, setPrompted] = createSignal<{ session: string }>()

// --- Deletions -------------------------------------------------------------------------------------------------------

export interface Deletion {
  sessions: string[]
  // The title of a single session.
  title: string
  timer: ReturnType<typeof setTimeout>
  error?: string
}

const [deletions, setDeletions] = createSignal<Deletion[]>([])
export { deletions }

// A session that is about to be deleted is not listed any more.
export const isLeaving = (session: string) => deletions().some((it) => !it.error && it.sessions.includes(session))

// Deletes sessions when the time for an undo is over. A page that is closed before deletes nothing.
export function deleteLater(sessions: string[]) {
  const title = world.sessions.get(sessions[0] ?? "")?.info.title ?? ""
  const deletion: Deletion = { sessions, title, timer: setTimeout(() => void finish(deletion), UNDO_MS) }
  setDeletions([...deletions(), deletion])
  setSelected([])
  const to = route()
  if (to.screen === "session" && sessions.includes(to.id)) go("/")
}

export function undo(deletion: Deletion) {
  clearTimeout(deletion.timer)
  setDeletions(deletions().filter((it) => it !== deletion))
}

async function finish(deletion: Deletion) {
  try {
    for (const sessionID of deletion.sessions) {
      await call("removeSession", { in: { sessionID } })
      give({ kind: "frame", event: { type: "session.deleted", properties: { sessionID } } })
    }
    setPinned(deletion.sessions, false)
    undo(deletion)
  } catch (failure) {
    const error = failure instanceof Error ? failure.message : String(failure)
    setDeletions(deletions().map((it) => (it === deletion ? { ...it, error } : it)))
  }
}
