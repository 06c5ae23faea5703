// Messages and parts: what the stream says, what reads say, and which of the two wins.

import type { Message, Part } from "./wire.ts"
import { MAX_GONE, MAX_OUTPUT, type MessageEntry, type PartEntry, type Window, type World } from "./world.ts"

export interface MessageRead {
  sessionID: string
  // The page, oldest first.
  messages: { info: Message; parts: Part[] }[]
  // Cursor of the page before; null at the beginning of the session.
  older: string | null
  // Cursor of the page after, for `around` and `newer`; null at the end of the session.
  newer?: string | null
  // `newest` covers everything after its first message, `one` a single message, all others the range between their ends:
  // `older` continues before the first message, `newer` after a gap, `around` is a page that may leave a gap.
  range: "newest" | "older" | "newer" | "around" | "one"
  // True if the session was idle for the whole read: the stored version then wins over the folded one.
  isFinal?: boolean
}

export function windowOf(world: World, session: string): Window {
  let found = world.windows.get(session)
  if (!found) {
    const partial = !world.shown.includes(session)
    found = { entries: [], older: null, gap: null, read: 0, partial, stale: true }
    world.windows.set(session, found)
  }
  return found
}

// Ids alone do not order messages: the time in them wraps.
const order = (left: Message, right: Message) =>
  left.time.created - right.time.created || (left.id < right.id ? -1 : left.id > right.id ? 1 : 0)

const find = (window: Window, message: string) => window.entries.findLast((entry) => entry.info.id === message)

function insert(window: Window, entry: MessageEntry) {
  const after = window.entries.findLastIndex((other) => order(other.info, entry.info) < 0)
  window.entries.splice(after + 1, 0, entry)
}

const want = (world: World, session: string, message: string) =>
  world.wanted.set(`${session} ${message}`, world.tick)

export function bury(world: World, id: string) {
  world.gone.add(id)
  if (world.gone.size > MAX_GONE) {
    const oldest = world.gone.values().next().value
    if (oldest !== undefined) world.gone.delete(oldest)
  }
}

export function isOpen(part: Part): boolean {
  if (part.type === "tool") return part.state?.status === "pending" || part.state?.status === "running"
  return part.time?.start !== undefined && part.time.end === undefined
}

function cut(part: Part): Part {
  const output = part.state?.output
  if (output === undefined || output.length <= MAX_OUTPUT) return { ...part }
  return { ...part, state: { ...part.state!, output: output.slice(0, MAX_OUTPUT), isCut: true } as Part["state"] }
}

export function putMessage(world: World, info: Message, changed: Set<string>) {
  if (world.gone.has(info.id)) return
  const window = windowOf(world, info.sessionID)
  const known = find(window, info.id)
  if (known) {
    known.info = info
    known.tick = world.tick
  } else if (!window.partial) {
    insert(window, { info, tick: world.tick, parts: [] })
    changed.add(`messages ${info.sessionID}`)
  }
  changed.add(`message ${info.id}`)
}

export function putPart(world: World, part: Part, changed: Set<string>) {
  if (world.gone.has(part.id) || world.gone.has(part.messageID)) return
  const window = windowOf(world, part.sessionID)
  let entry = find(window, part.messageID)
  if (!entry) {
    if (!window.partial) want(world, part.sessionID, part.messageID)
    if (!isOpen(part)) return
    // The stream announces a message before its parts; after a reconnect it repeats only the open parts.
    const info = { role: "assistant", id: part.messageID, sessionID: part.sessionID, parentID: "" } as Message
    // An open part belongs to the newest message.
    const time = { created: part.time?.start ?? Number.MAX_SAFE_INTEGER }
    entry = { info: { ...info, time } as Message, tick: 0, parts: [] }
    insert(window, entry)
    changed.add(`messages ${part.sessionID}`)
  }
  const made: PartEntry = { part: cut(part), tick: world.tick, connection: world.connection }
  const at = entry.parts.findIndex((known) => known.part.id === part.id)
  if (at >= 0) entry.parts[at] = made
  else entry.parts.push(made)
  if (at < 0) changed.add(`message ${part.messageID}`)
  changed.add(`part ${part.id}`)
  if (window.partial && !isOpen(part)) shrink(window)
}

// Keeps only open parts of a session that is not shown.
export function shrink(window: Window) {
  window.partial = true
  window.stale = true
  window.older = null
  window.gap = null
  for (const entry of window.entries) entry.parts = entry.parts.filter(({ part }) => isOpen(part))
  window.entries = window.entries.filter((entry) => entry.parts.length > 0)
}

// Appends text to a part that the stream of this connection has introduced. Text for any other part cannot be placed:
// the message is read instead.
export function putDelta(
  world: World,
  delta: { sessionID: string; messageID: string; partID: string; field: string; delta: string },
  changed: Set<string>,
) {
  const window = world.windows.get(delta.sessionID)
  const entry = window && find(window, delta.messageID)
  const known = entry?.parts.findLast(({ part }) => part.id === delta.partID)
  if (!known || known.connection !== world.connection) {
    if (window && !window.partial) want(world, delta.sessionID, delta.messageID)
    return
  }
  const before = known.part[delta.field]
  known.part[delta.field] = (typeof before === "string" ? before : "") + delta.delta
  known.tick = world.tick
  changed.add(`part ${delta.partID}`)
}

export function removeMessage(world: World, session: string, message: string, changed: Set<string>) {
  bury(world, message)
  const window = world.windows.get(session)
  if (!window) return
  if (window.gap?.last === message) {
    const before = window.entries[window.entries.findIndex((entry) => entry.info.id === message) - 1]
    window.gap = before ? { ...window.gap, last: before.info.id } : null
  }
  window.entries = window.entries.filter((entry) => entry.info.id !== message)
  changed.add(`messages ${session}`)
}

export function removePart(world: World, session: string, message: string, part: string, changed: Set<string>) {
  bury(world, part)
  const window = world.windows.get(session)
  const entry = window && find(window, message)
  if (!entry) return
  entry.parts = entry.parts.filter((known) => known.part.id !== part)
  changed.add(`message ${message}`)
}

export function readMessages(world: World, read: MessageRead, began: number, changed: Set<string>) {
  const window = world.windows.get(read.sessionID)
  // Changes between this read and the epoch are in neither the read nor the stream: the window stays stale.
  if (began < world.epoch) return
  // The session was left or deleted while the read was made.
  if (!window || window.partial || world.gone.has(read.sessionID)) return
  // Answers may overtake each other; an older one has nothing to add.
  if (read.range === "newest" || read.range === "one") {
    if (began < window.read) return
    window.read = began
  }
  const contained = new Map(read.messages.map((message) => [message.info.id, message]))
  if (read.range !== "one") cover(window, read, began, contained)
  for (const { info, parts } of read.messages) {
    if (!world.gone.has(info.id)) mergeMessage(world, window, info, parts, began, read.isFinal ?? false, changed)
  }
  for (const message of contained.keys()) {
    const key = `${read.sessionID} ${message}`
    // A mention that came while the read was made may be newer than the read.
    if ((world.wanted.get(key) ?? Infinity) <= began) world.wanted.delete(key)
  }
  changed.add(`messages ${read.sessionID}`)
}

// Removes what a read would contain if it still existed, and notes what lies before and behind the read.
function cover(window: Window, read: MessageRead, began: number, contained: Map<string, unknown>) {
  const first = read.messages[0]?.info
  const last = read.messages.at(-1)?.info
  const covers = (info: Message) => {
    if (read.range === "newest") return !first || read.older === null || order(info, first) >= 0
    return first !== undefined && last !== undefined && order(info, first) >= 0 && order(info, last) <= 0
  }
  const later = behindGap(window)
  // A frame that arrived after the read began is newer than the read.
  window.entries = window.entries.filter(
    (entry) => contained.has(entry.info.id) || entry.tick > began || isTouched(entry, began) || !covers(entry.info),
  )
  if (read.range === "newest") return coverNewest(window, read, began, first)
  if (read.range !== "newer") window.older = read.older
  if (read.range === "older") return
  // A window has one gap at most: a jump gives up the messages before an earlier one.
  if (read.range === "around" && window.gap) window.entries = later
  const isJoined = !last || !read.newer || later.some((entry) => order(entry.info, last) <= 0)
  window.gap = isJoined ? null : { last: last.id, newer: read.newer! }
}

function coverNewest(window: Window, read: MessageRead, began: number, first: Message | undefined) {
  const isOlder = (entry: MessageEntry) => first !== undefined && order(entry.info, first) < 0
  // Everything before the page is read again when it is needed: a gap must not look like a beginning.
  if (window.stale && read.older !== null) {
    window.entries = window.entries.filter((entry) => !isOlder(entry) || isTouched(entry, began))
    window.gap = null
  }
  // Older pages that are loaded know better what is before them.
  if (window.stale || !window.entries.some(isOlder)) window.older = read.older
  window.stale = false
}

// The loaded messages behind the gap, or all of them.
function behindGap({ entries, gap }: Window): MessageEntry[] {
  return gap ? entries.slice(entries.findIndex((entry) => entry.info.id === gap.last) + 1) : entries
}

const isTouched = (entry: MessageEntry, began: number) => entry.parts.some((known) => known.tick > began)

function mergeMessage(
  world: World,
  window: Window,
  info: Message,
  parts: Part[],
  began: number,
  isFinal: boolean,
  changed: Set<string>,
) {
  let entry = find(window, info.id)
  if (!entry) {
    entry = { info, tick: 0, parts: [] }
    insert(window, entry)
  } else if (entry.tick <= began) {
    entry.info = info
    window.entries.sort((left, right) => order(left.info, right.info))
  }
  const known = new Map(entry.parts.map((part) => [part.part.id, part]))
  const merged: PartEntry[] = []
  for (const part of parts) {
    if (world.gone.has(part.id)) continue
    const folded = known.get(part.id)
    known.delete(part.id)
    const isNewer = folded !== undefined && folded.tick > began
    const isLive = folded !== undefined && folded.connection === world.connection
    if (isNewer || (isLive && !isFinal)) {
      merged.push(folded)
      continue
    }
    if (folded && isLive && folded.part.text !== part.text) world.counts.differences++
    merged.push({ part: cut(part), tick: folded?.tick ?? 0, connection: folded?.connection ?? 0 })
    changed.add(`part ${part.id}`)
  }
  // Parts that the read does not contain remain only if the stream has brought them.
  for (const folded of known.values()) {
    if (folded.tick > began || (folded.connection === world.connection && !isFinal)) merged.push(folded)
  }
  entry.parts = merged
  changed.add(`message ${info.id}`)
}
