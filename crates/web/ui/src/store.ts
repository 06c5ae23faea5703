// Connects the fold with the browser: signals for what has changed, the stream, and the reads that the world asks for.

import { batch, createSignal, getOwner, onCleanup, type Signal } from "solid-js"
import { type Body, Failure, call, messageId, openEvents } from "./api.ts"
import { type Input, fold } from "./core/fold.ts"
import { Lease, type LeaseNote } from "./core/lease.ts"
import { Link } from "./core/link.ts"
import { Recorder } from "./core/recorder.ts"
import { isBusy, statement } from "./core/state.ts"
import type { MessageRead } from "./core/transcript.ts"
import { type Note, type Tab, Tabs } from "./core/tabs.ts"
import type { WireWaiting } from "./core/waiting.ts"
import type { Frame, Message, Part, Session, Todo } from "./core/wire.ts"
import { createWorld } from "./core/world.ts"

export const world = createWorld()
export const recorder = new Recorder()

const PAGE = 50
const LIST = 100
// A hidden page draws nothing, so it folds less often.
const HIDDEN_MS = 250
const TICK_MS = 1_000

const signals = new Map<string, { signal: Signal<number>; users: number }>()

// Makes the running computation depend on a key of the fold.
export function watch(key: string) {
  let entry = signals.get(key)
  if (!entry) {
    if (!getOwner()) return
    entry = { signal: createSignal(0), users: 0 }
    signals.set(key, entry)
  }
  const made = entry
  made.users++
  if (getOwner()) onCleanup(() => --made.users === 0 && signals.get(key) === made && signals.delete(key))
  made.signal[0]()
}

type Folded = (changed: Set<string>) => void
const folded: Folded[] = []
const settled: (() => void)[] = []

// Calls the listener after each change of the world, with the keys that have changed.
export const onFold = (listener: Folded) => void folded.push(listener)
// Calls the listener when a connection has stated its state, also one of another tab.
export const onSettled = (listener: () => void) => void settled.push(listener)

const [build, setBuild] = createSignal<string | null>(null)
const [isOutdated, setOutdated] = createSignal(false)
export { isOutdated }

// Applies inputs now.
export function give(...inputs: Input[]) {
  flush()
  apply(inputs)
}

function apply(inputs: Input[]) {
  const changed = new Set<string>()
  for (const input of inputs) for (const key of fold(world, input)) changed.add(key)
  batch(() => {
    for (const key of changed) signals.get(key)?.signal[1]((version) => version + 1)
  })
  for (const listener of folded) listener(changed)
  void load()
}

let queue: Input[] = []
let isScheduled = false

// Applies inputs of the stream with the next frame of the screen.
function later(...inputs: Input[]) {
  queue.push(...inputs)
  if (isScheduled || queue.length === 0) return
  isScheduled = true
  if (document.hidden) setTimeout(flush, HIDDEN_MS)
  else requestAnimationFrame(flush)
}

function flush() {
  isScheduled = false
  if (queue.length === 0) return
  const inputs = queue
  queue = []
  apply([{ kind: "now", ms: Date.now() }, ...inputs])
}

// --- Reads -----------------------------------------------------------------------------------------------------------

interface Stored {
  info: Message
  parts: Part[]
}

const reading = new Set<string>()
let wasBusy: string | null = null

// Reads the newest messages of the visible session if the world asks for it, and once after each turn.
async function load() {
  const session = world.visible
  const window = session ? world.windows.get(session) : undefined
  if (!session || !window || reading.has(session) || world.opening) return
  const busy = isBusy(world, session)
  const hasEnded = wasBusy === session && !busy
  wasBusy = busy ? session : null
  const isWanted = [...world.wanted.keys()].some((key) => key.startsWith(`${session} `))
  if (!window.stale && !isWanted && !hasEnded) return
  reading.add(session)
  try {
    if (window.stale) await readAgain(session, hasEnded)
    else await readPage(session, "newest", undefined, hasEnded)
  } catch (error) {
    if (error instanceof Failure && error.status === 404) give({ kind: "frame", event: gone(session) })
  } finally {
    reading.delete(session)
  }
  // A read may be overtaken by the stream; the next change or this one asks again.
  if (world.windows.get(session)?.stale && world.phase.kind === "live") setTimeout(() => void load(), 1_000)
}

const gone = (sessionID: string) => ({ type: "session.deleted", properties: { sessionID } })

type Place = { before: string } | { after: string } | { around: string }

async function readPage(session: string, range: MessageRead["range"], place?: Place, isFinal = false) {
  const page = await fetchPage(session, range, place)
  give(settle(page, isFinal))
}

async function fetchPage(session: string, range: MessageRead["range"], place?: Place) {
  const began = world.tick
  const { data, headers } = await call("messages", {
    in: { sessionID: session },
    query: { limit: PAGE, ...place },
  })
  const [older, newer] = [headers.get("x-next-cursor"), headers.get("x-newer-cursor")]
  return { began, read: { sessionID: session, messages: data, older, newer, range } }
}

// The stored version wins if the session was idle during the whole read.
const settle = ({ began, read }: { began: number; read: MessageRead }, isFinal: boolean): Input => ({
  kind: "messages",
  began,
  read: { ...read, isFinal: isFinal && !isBusy(world, read.sessionID) },
})

// Returns the message that the user reads in a session and, in case that it is gone, those after it. Returns none if the
// view follows the end.
type Reader = () => string[]
const readers = new Map<string, Reader>()

// Registers the reader of a session that is shown. Returns the function that ends this.
export function onRead(session: string, reader: Reader) {
  readers.set(session, reader)
  return () => void (readers.get(session) === reader && readers.delete(session))
}

// The most pages that are read because the user scrolls, or because messages are gone.
const MAX_AROUND = 5

// Reads the newest messages of a window that may have missed changes, and those around the line that the user reads. Both
// are applied as one change: the newest page replaces the messages before it, and the line must not disappear meanwhile.
async function readAgain(session: string, isFinal: boolean) {
  const newest = await fetchPage(session, "newest")
  let around: typeof newest | undefined
  const absent = new Set<string>()
  for (let page = 0; page < MAX_AROUND; page++) {
    const line = readers.get(session)?.().find((message) => !absent.has(message))
    const isRead = [newest, around].some((it) => it?.read.messages.some(({ info }) => info.id === line))
    if (line === undefined || isRead) break
    try {
      around = await fetchPage(session, "around", { around: line })
    } catch (error) {
      if (!isAbsent(error)) throw error
      absent.add(line)
    }
  }
  give(...[newest, around].filter((page) => page !== undefined).map((page) => settle(page, isFinal && page === newest)))
}

// True if the server says that a message does not exist.
const isAbsent = (error: unknown) => error instanceof Failure && (error.status === 404 || error.status === 400)

export async function loadOlder(session: string) {
  const before = world.windows.get(session)?.older
  if (before) await readPage(session, "older", { before })
}

// Reads the page after the gap.
export async function loadNewer(session: string) {
  const gap = world.windows.get(session)?.gap
  if (gap) await readPage(session, "newer", { after: gap.newer })
}

// Reads a message with those around it. Returns false if it does not exist.
export async function loadAround(session: string, message: string): Promise<boolean> {
  try {
    await readPage(session, "around", { around: message })
    return true
  } catch (error) {
    if (isAbsent(error)) return false
    throw error
  }
}

// Reads the todos of a session that the stream has not mentioned yet.
export async function readTodos(session: string) {
  if (world.todos.has(session)) return
  const { data: todos } = await call("todos", { in: { sessionID: session } }).catch(() => ({ data: [] }))
  // The stream wins over a read, also with events that wait for the next frame of the screen.
  flush()
  if (!world.todos.has(session)) give({ kind: "frame", event: { type: "todo.updated", properties: { sessionID: session, todos } } })
}

const [hasMore, setMore] = createSignal<string | null>(null)
export { hasMore }

export async function loadSessions(cursor?: string) {
  const began = world.tick
  const { data, headers } = await call("sessions", { query: { roots: true, limit: LIST, cursor: cursor === undefined ? undefined : Number(cursor) } })
  const next = headers.get("x-next-cursor")
  setMore(next)
  const since = next ? (data.at(-1)?.time.updated ?? 0) : 0
  give({ kind: "sessions", began, sessions: data, covers: cursor ? undefined : { since, rootsOnly: true } })
}

// Reads the sessions whose title contains a text, also those that the list has not loaded.
export async function findSessions(search: string) {
  const began = world.tick
  const { data } = await call("sessions", { query: { roots: true, limit: LIST, search } })
  give({ kind: "sessions", began, sessions: data })
}

export async function show(session: string | null) {
  give({ kind: "show", session })
  if (session) await loadSession(session)
}

async function loadSession(session: string) {
  try {
    await Promise.all([loadFamily(session), loadQueue(session)])
  } catch (error) {
    if (error instanceof Failure && error.status === 404) give({ kind: "frame", event: gone(session) })
  }
}

// Reads a session and its whole family.
async function loadFamily(session: string) {
  const began = world.tick
  const known = world.sessions.get(session)?.info
  if (!known || known.isPartial) give({ kind: "sessions", began, sessions: [(await call("session", { in: { sessionID: session } })).data] })
  const directory = world.sessions.get(session)?.info.directory
  if (directory === undefined) return
  const { data: family } = await call("family", { in: { sessionID: session } })
  give({ kind: "family", began, directory, family })
}

export async function loadQueue(session: string) {
  const began = world.tick
  try {
    const { data } = await call("queue", { in: { sessionID: session } })
    give({ kind: "queue", began, session, queue: data })
  } catch (error) {
    // The session itself tells whether it exists; a server without this route reports prompts by events.
    if (!(error instanceof Failure)) throw error
  }
}

// --- Actions ---------------------------------------------------------------------------------------------------------

export interface Choice {
  providerID: string
  modelID: string
}

export type Answer = "permission" | "question" | "reject"

// Answers a request. One that has been answered elsewhere is closed without an error.
export async function answer(request: string, route: Answer, body?: Body<Answer>) {
  give({ kind: "answering", request })
  let isElsewhere = false
  try {
    await call(route, { in: { requestID: request }, body })
  } catch (error) {
    isElsewhere = error instanceof Failure && error.status === 404
    if (!isElsewhere) {
      give({ kind: "answering", request, isOver: true })
      throw error
    }
  }
  give({ kind: "answered", request, isElsewhere })
}

// --- The stream ------------------------------------------------------------------------------------------------------

export const timer = (ms: number, run: () => void) => {
  const id = setTimeout(run, ms)
  return () => clearTimeout(id)
}

// The header has a resolution of one second, so a small difference says nothing.
const MIN_OFFSET_MS = 2_000

function noteClock(response: Response) {
  const date = Date.parse(response.headers.get("date") ?? "")
  if (Number.isNaN(date)) return
  const offset = date + 500 - Date.now()
  later({ kind: "clock", offset: Math.abs(offset) < MIN_OFFSET_MS ? 0 : offset })
}

async function open(cursor: number | null, signal: AbortSignal) {
  const response = await openEvents(cursor, signal)
  noteClock(response)
  const name = response.headers.get("x-baton-page")
  if (response.ok && name) {
    if (build() && build() !== name) setOutdated(true)
    setBuild(build() ?? name)
  }
  return response
}

let tabs: Tabs | undefined
export const isHolder = () => tabs?.isHolder ?? false

const link = new Link(
  { open, now: () => Date.now(), random: Math.random, later: timer },
  {
    opened: (resumed) => pass({ kind: "opened", resumed }),
    frames: (frames) => pass({ kind: "batch", frames }),
    settled: () => pass({ kind: "settled" }),
    unreadable: () => later({ kind: "unreadable" }),
    phase: (phase) => pass({ kind: "phase", phase }),
    cursor: () => (flush(), world.cursor),
  },
)

// Folds a note of the stream in this tab, and passes it on to the others.
function pass(note: Note) {
  follow(note)
  tabs?.share(note)
}

// A heartbeat changes nothing that is shown, so it is not worth a frame of the screen.
const isNews = ({ event }: Frame) => event.type !== "server.heartbeat"

function follow(note: Note) {
  switch (note.kind) {
    case "batch":
      recorder.add(note.frames, Date.now())
      signals.get("events")?.signal[1]((version) => version + 1)
      return later(...note.frames.filter(isNews).map((frame): Input => ({ kind: "frame", ...frame })))
    case "opened":
      return later(note)
    case "settled":
      flush()
      // A new epoch knows only sessions that are active.
      if (!world.isKnown || world.opening) void loadSessions().catch(() => {})
      if (world.visible && world.opening) void loadSession(world.visible)
      later(note)
      return settled.forEach((listener) => listener())
    case "phase":
      return later(note)
    case "statement":
      later({ kind: "opened", resumed: false })
      later(...note.frames.map((frame): Input => ({ kind: "frame", ...frame })))
      later({ kind: "phase", phase: note.phase })
      follow({ kind: "settled" })
  }
}

const tab: Tab = {
  hold() {
    link.start()
    return { stop: () => link.close() }
  },
  follow,
  statement: () => (flush(), { cursor: world.cursor, frames: statement(world), phase: world.phase }),
}

export function hurry() {
  link.hurry()
  tabs?.wake()
}

// Starts the stream through one tab of the browser.
export function start() {
  const channel = new BroadcastChannel("baton")
  const id = messageId(Date.now())
  const lease = new Lease({ id, post: (note) => channel.postMessage(note), later: timer })
  // Browsers have locks only for https and localhost.
  const locks = navigator.locks as LockManager | undefined
  const lock = async (steal: boolean, held: () => Promise<void>) => {
    if (locks) await locks.request("baton-stream", steal ? { steal } : {}, held)
    else await lease.lock(steal, held)
  }
  const post = (note: Note) => channel.postMessage(note)
  tabs = new Tabs({ id, lock, post, later: timer, isVisible: () => !document.hidden }, tab)
  channel.onmessage = ({ data }: MessageEvent<Note | LeaseNote>) => ("lease" in data ? lease.hear(data) : tabs?.hear(data))
  tabs.start()
  window.addEventListener("online", hurry)
  window.addEventListener("pageshow", hurry)
  // A tab that is closed hands the stream over at once.
  window.addEventListener("pagehide", (event) => event.persisted || tabs?.close())
  document.addEventListener("visibilitychange", () => {
    // A page that was hidden in between gets no frame of the screen.
    flush()
    keepTime()
    if (!document.hidden) hurry()
  })
  keepTime()
}

let clock: ReturnType<typeof setInterval> | undefined

// Tells the fold the time every second. A hidden page shows no time, so it needs no timer.
function keepTime() {
  clearInterval(clock)
  if (document.hidden) return
  const tick = () => apply([{ kind: "now", ms: Date.now() }])
  tick()
  clock = setInterval(tick, TICK_MS)
}
