// Notifications of the browser. Only the tab that holds the stream shows them, so each event is told once.

import { createEffect, createRoot, createSignal } from "solid-js"
import { announce, isCurrent, noticeText, noticeTitle } from "./announce.ts"
import type { Notice } from "./core/notices.ts"
import { isQuiet } from "./core/quiet.ts"
import { showNotification } from "./install.ts"
import { isFocused } from "./marks.ts"
import { go, route, sessionLink } from "./route.ts"
import { isHolder, onFold, world } from "./store.ts"
import { words } from "./words.ts"

export interface NotificationSettings {
  isOn: boolean
  request: boolean
  failed: boolean
  completed: boolean
  // Sessions that are not told.
  muted: string[]
  // Hours without notifications, as `HH:MM`; both empty for none.
  quietFrom: string
  quietTo: string
  // True once the user has been offered the switch.
  isOffered: boolean
}

const NAME = "baton notifications"
const DEFAULTS: NotificationSettings = { isOn: false, request: true, failed: true, completed: true, muted: [], quietFrom: "", quietTo: "", isOffered: false }
// Events within this time become one notification. A request that is answered meanwhile becomes none.
const GATHER_MS = 400
// A focused tab repeats what it shows; a crashed one is forgotten.
const PRESENT_MS = 5_000
const ABSENT_MS = 12_000
// The most sessions that are muted.
const MAX_MUTED = 200

function read(): NotificationSettings {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(NAME) ?? "{}") }
  } catch {
    return DEFAULTS
  }
}

const [settings, setSettings] = createSignal(read())
window.addEventListener("storage", (event) => event.key === NAME && setSettings(read()))
export { settings as notificationSettings }

export function setNotifications(change: Partial<NotificationSettings>) {
  const made = { ...read(), ...change }
  made.muted = made.muted.slice(-MAX_MUTED)
  setSettings(made)
  try {
    localStorage.setItem(NAME, JSON.stringify(made))
  } catch {
    // Without storage the choice lasts as long as the page.
  }
}

export const isMuted = (session: string) => settings().muted.includes(session)

export const setMuted = (session: string, isMuted: boolean) =>
  setNotifications({ muted: [...settings().muted.filter((other) => other !== session), ...(isMuted ? [session] : [])] })

// Browsers allow notifications only for https and localhost.
export function notificationState(): "on" | "off" | "denied" | "insecure" | "unsupported" {
  if (!isSecureContext) return "insecure"
  if (!("Notification" in window)) return "unsupported"
  if (Notification.permission === "denied") return "denied"
  return settings().isOn && Notification.permission === "granted" ? "on" : "off"
}

// Asks the browser for its permission, because the user has switched notifications on.
export async function switchOn() {
  const permission = "Notification" in window ? await Notification.requestPermission() : "denied"
  setNotifications({ isOn: permission === "granted", isOffered: true })
}

// --- The session that a focused tab shows ----------------------------------------------------------------------------

interface Presence {
  session: string | null
}

const channel = new BroadcastChannel("baton presence")
let elsewhere: { session: string | null; at: number } = { session: null, at: 0 }
channel.onmessage = ({ data }: MessageEvent<Presence>) => (elsewhere = { session: data.session, at: Date.now() })

function visibleSession(): string | null {
  const to = route()
  return isFocused() && to.screen === "session" ? to.id : null
}

const isLookedAt = (session: string) =>
  visibleSession() === session || (elsewhere.session === session && Date.now() - elsewhere.at < ABSENT_MS)

// --- Showing ---------------------------------------------------------------------------------------------------------

let gathered: Notice[] = []

function gather() {
  if (world.notices.length === 0) return
  const notices = world.notices.splice(0)
  announce(notices.filter((notice) => !isMuted(notice.session)))
  const { quietFrom, quietTo } = settings()
  if (!isHolder() || notificationState() !== "on" || isQuiet(new Date(), quietFrom, quietTo)) return
  const isWanted = (notice: Notice) => notice.kind !== "brief" && settings()[notice.kind] && !isMuted(notice.session)
  if (gathered.length === 0) setTimeout(tell, GATHER_MS)
  gathered.push(...notices.filter(isWanted))
}

function tell() {
  const notices = gathered.filter((notice) => isCurrent(notice) && !isLookedAt(notice.session))
  gathered = []
  const [first] = notices
  if (!first) return
  const isOne = notices.length === 1
  const body = isOne ? noticeText(first) : notices.map((notice) => `${noticeTitle(notice)}: ${noticeText(notice)}`).join("\n")
  // The tag makes a repetition of the same event replace the first one.
  const options = { body, tag: notices.map(({ key }) => key).join(",") }
  void display(isOne ? noticeTitle(first) : words.news(notices.length), options, isOne ? sessionLink(first.session) : "#/needs")
}

async function display(title: string, options: NotificationOptions, link: string) {
  if (await showNotification(title, options, link)) return
  try {
    const shown = new Notification(title, options)
    shown.onclick = () => {
      window.focus()
      go(link.slice(1))
      shown.close()
    }
  } catch {
    // Some phones allow notifications only to service workers.
  }
}

export function startNotifying() {
  onFold(gather)
  createRoot(() => {
    createEffect(() => channel.postMessage({ session: visibleSession() } satisfies Presence))
  })
  // A focused page is told the time every second, so this needs no timer of its own.
  let repeated = Date.now()
  onFold(() => {
    const session = visibleSession()
    if (session === null || Date.now() - repeated < PRESENT_MS) return
    repeated = Date.now()
    channel.postMessage({ session } satisfies Presence)
  })
  window.addEventListener("pagehide", () => channel.postMessage({ session: null } satisfies Presence))
}
