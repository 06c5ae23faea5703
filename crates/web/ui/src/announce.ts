// News of sessions that are not on the screen, for screen readers. Every visible tab tells them in its live region.

import { createSignal } from "solid-js"
import type { Notice } from "./core/notices.ts"
import { oneLine } from "./plain.ts"
import { route } from "./route.ts"
import { world } from "./store.ts"
import { words } from "./words.ts"

// News within this time become one sentence. A request that is answered meanwhile becomes none.
const GATHER_MS = 400
// A sentence that stays would keep an equal one after it from being told.
const CLEAR_MS = 5_000
// The most news of one sentence; the oldest go first.
const MAX_GATHERED = 100
// More sessions than this are told as a number.
const MAX_NAMED = 2

const [announcement, setAnnouncement] = createSignal("")
export { announcement }

let gathered: Notice[] = []
let clearing: ReturnType<typeof setTimeout> | undefined

export const noticeText = (notice: Notice) => (notice.reason ? words.end(notice.reason) : words.state("needs"))
export const noticeTitle = (notice: Notice) => oneLine(world.sessions.get(notice.session)?.info.title ?? words.sessions)
export const isCurrent = ({ request }: Notice) => request === undefined || world.requests.has(request)

export function announce(notices: Notice[]) {
  if (document.hidden || notices.length === 0) return
  if (gathered.length === 0) setTimeout(tell, GATHER_MS)
  gathered = [...gathered, ...notices].slice(-MAX_GATHERED)
}

function tell() {
  const to = route()
  // The screen of a session has a region of its own.
  const isElsewhere = ({ session }: Notice) => to.screen !== "session" || to.id !== session
  // The last news of a session replaces those before it.
  const latest = new Map(gathered.filter((notice) => isCurrent(notice) && isElsewhere(notice)).map((notice) => [notice.session, notice]))
  gathered = []
  if (latest.size === 0) return
  const named = [...latest.values()].map((notice) => `${noticeTitle(notice)}: ${noticeText(notice)}`)
  setAnnouncement(named.length > MAX_NAMED ? words.news(named.length) : named.join(". "))
  clearTimeout(clearing)
  clearing = setTimeout(() => setAnnouncement(""), CLEAR_MS)
}
