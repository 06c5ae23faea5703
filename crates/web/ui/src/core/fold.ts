// The one function that changes the world. It is deterministic: time, network and the user reach it as inputs.
//
// Its rules keep the page right about whose turn it is:
//
// - A frame whose id is not greater than the cursor has been seen and is dropped.
// - Only `session.status` sets a status. A lone `session.idle` counts for servers that send nothing else.
// - The stream wins over a read that began earlier, and nothing that was deleted comes back.
// - A connection without a cursor starts a new epoch. Its opening statement is shown as one change when it is complete.

import { begin, finish, hear, leave, queueOf } from "./queue.ts"
import { answered, ask, closeRequest, forgetEnding, replied } from "./requests.ts"
import { ended, look, markSeen, seenElsewhere } from "./seen.ts"
import { statusOf } from "./state.ts"
import { readTokens } from "./tokens.ts"
import {
  type MessageRead,
  bury,
  putDelta,
  putMessage,
  putPart,
  readMessages,
  removeMessage,
  removePart,
  shrink,
  windowOf,
} from "./transcript.ts"
import { type WireWaiting, dequeue, enqueue, reorder } from "./waiting.ts"
import { type EndReason, type Family, type Frame, type Message, type Session, type Status, type WireEvent, errorText } from "./wire.ts"
import { MAX_SHOWN, type Phase, type Prompt, type Request, type Unread, type World } from "./world.ts"

export type Input =
  | ({ kind: "frame" } & Frame)
  // A connection of the stream begins; `resumed` if it continues after the cursor.
  | { kind: "opened"; resumed: boolean }
  // The opening statement of the connection is complete.
  | { kind: "settled" }
  // A list of sessions; `covers` says which sessions it would contain if they existed.
  | { kind: "sessions"; began: number; sessions: Session[]; covers?: { since: number; rootsOnly: boolean } }
  // The relatives of a session, which work in the same directory.
  | { kind: "family"; began: number; directory: string; family: Family }
  | { kind: "messages"; began: number; read: MessageRead }
  // The waiting prompts of a session.
  | { kind: "queue"; began: number; session: string; queue: WireWaiting[] }
  | { kind: "show"; session: string | null }
  // The user looks at the end of a session, or at none.
  | { kind: "watch"; session: string | null }
  // Marks that another tab has stored; `unread` also after the user has asked for it.
  | { kind: "seen"; session: string; id: number }
  | { kind: "unread"; session: string; unread: Unread }
  | { kind: "send"; prompt: Omit<Prompt, "fate"> }
  // The server has the prompt; `isRepeated` if an earlier attempt may have brought it.
  | { kind: "sent"; id: string; isRepeated?: boolean }
  | { kind: "held"; id: string }
  | { kind: "failed"; id: string; error: string }
  | { kind: "discard"; id: string }
  // This page answers a request; `isOver` if the call has failed.
  | { kind: "answering"; request: string; isOver?: boolean }
  // The call is over; `isElsewhere` if the server no longer had the request.
  | { kind: "answered"; request: string; isElsewhere?: boolean }
  // The user has read the end of a request.
  | { kind: "ending"; request: string }
  | { kind: "phase"; phase: Phase }
  | { kind: "unreadable" }
  | { kind: "clock"; offset: number }
  | { kind: "now"; ms: number }

// Applies an input and returns the keys of everything that has changed.
export function fold(world: World, input: Input): Set<string> {
  const changed = new Set<string>()
  world.tick++
  switch (input.kind) {
    case "frame":
      frame(world, input, changed)
      break
    case "opened":
      opened(world, input.resumed, changed)
      break
    case "settled":
      settled(world, changed)
      break
    case "sessions":
      readSessions(world, input, changed)
      break
    case "family":
      readFamily(world, input, changed)
      break
    case "messages":
      readMessages(world, input.read, input.began, changed)
      break
    case "show":
      show(world, input.session, changed)
      break
    case "send":
      world.prompts.set(input.prompt.id, { ...input.prompt, fate: "sending" })
      changed.add(`prompts ${input.prompt.sessionID}`)
      break
    case "sent":
      sent(world, input.id, input.isRepeated ?? false, changed)
      break
    case "held":
      setFate(world, input.id, "held", changed, ["sending"])
      break
    case "queue":
      // Events that came after the read began are newer.
      if (input.began >= Math.max(world.epoch, world.queueTicks.get(input.session) ?? 0)) {
        reorder(world, input.session, input.queue, changed)
      }
      break
    case "watch":
      look(world, input.session, changed)
      break
    case "seen":
      markSeen(world, input.session, input.id, changed)
      break
    case "unread":
      world.unread.set(input.session, input.unread)
      changed.add("list").add(`status ${input.session}`).add("marks")
      break
    case "failed":
      fail(world, input.id, input.error, changed)
      break
    case "discard":
      dropPrompt(world, input.id, changed)
      break
    case "answering":
      if (input.isOver) world.answering.delete(input.request)
      else world.answering.add(input.request)
      break
    case "answered":
      answered(world, input.request, input.isElsewhere ?? false, changed)
      break
    case "ending":
      forgetEnding(world, input.request, changed)
      break
    case "phase":
      world.phase = input.phase
      changed.add("phase")
      break
    case "unreadable":
      world.counts.unreadable++
      break
    case "clock":
      world.offset = input.offset
      break
    case "now":
      world.now = input.ms
      changed.add("now")
      break
  }
  return changed
}

function frame(world: World, { id, event }: Frame, changed: Set<string>) {
  if (id !== undefined) {
    if (world.cursor !== null && id <= world.cursor) {
      world.counts.duplicates++
      return
    }
    world.cursor = id
  }
  try {
    apply(world, event, changed)
  } catch {
    // A frame of an unexpected shape must not stop the stream.
    world.counts.unreadable++
  }
}

function apply(world: World, { type, properties: it }: WireEvent, changed: Set<string>) {
  switch (type) {
    case "server.resync":
      return opened(world, false, changed)
    case "server.ready":
      if (typeof it?.cursor === "number") world.position = it.cursor
      return settled(world, changed)
    case "session.created":
    case "session.updated":
      return putSession(world, it.info, Infinity, changed)
    case "session.deleted":
      return removeSession(world, it.info?.id ?? it.sessionID, changed)
    case "session.status":
      return setStatus(world, it.sessionID, it.status, changed)
    case "session.seen":
      return seenElsewhere(world, it.sessionID, it.cursor, changed)
    case "session.idle":
      return lateIdle(world, it.sessionID, changed)
    case "session.error":
      // An MCP server that fails is reported without a session.
      if (!it.sessionID) changed.add("mcp")
      else if (it.error && it.error.name !== "MessageAbortedError") {
        world.errors.set(it.sessionID, errorText(it.error))
        changed.add(`status ${it.sessionID}`)
      }
      return
    case "message.updated":
      return message(world, it.info, changed)
    case "message.removed":
      leave(queueOf(world, it.sessionID), it.messageID)
      moved(world, it.sessionID, it.messageID, changed)
      dropPrompt(world, it.messageID, changed)
      return removeMessage(world, it.sessionID, it.messageID, changed)
    case "message.part.updated":
      return putPart(world, it.part, changed)
    case "message.part.delta":
      return putDelta(world, it, changed)
    case "message.part.removed":
      return removePart(world, it.sessionID, it.messageID, it.partID, changed)
    case "permission.asked":
      return ask(world, { kind: "permission", id: it.id, sessionID: it.sessionID, rootID: it.rootID, body: it }, changed)
    case "question.asked":
      return ask(world, { kind: "question", id: it.id, sessionID: it.sessionID, rootID: it.rootID, body: it }, changed)
    case "permission.replied":
      return replied(world, it, it.reply, changed)
    case "question.replied":
      return replied(world, it, "answered", changed)
    case "question.rejected":
      return replied(world, it, "dismissed", changed)
    case "prompt.queued":
      return queued(world, it, changed)
    case "session.queue.updated":
      return reorder(world, it.sessionID, it.queue, changed)
    case "prompt.started":
      moved(world, it.sessionID, it.messageID, changed)
      begin(queueOf(world, it.sessionID), it.messageID)
      changed.add(`status ${it.sessionID}`)
      return setFate(world, it.messageID, "running", changed)
    case "prompt.ended":
      moved(world, it.sessionID, it.messageID, changed)
      leave(queueOf(world, it.sessionID), it.messageID)
      changed.add(`status ${it.sessionID}`)
      return dropPrompt(world, it.messageID, changed)
    case "todo.updated":
      world.todos.set(it.sessionID, it.todos)
      changed.add(`todos ${it.sessionID}`)
      return
    case "pty.created":
    case "pty.updated":
    case "pty.exited":
    case "pty.deleted":
      changed.add("terminals")
      return
    case "mcp.tools.changed":
      changed.add("mcp")
      return
    case "session.diff":
      changed.add(`diff ${it.sessionID}`)
      return
    case "continuation.countdown":
      world.countdowns.set(it.sessionID, { n: it.n, open: it.open, until: it.until })
      changed.add(`status ${it.sessionID}`)
      return
    case "continuation.started":
      return endCountdown(world, it.sessionID, changed)
    case "continuation.stopped": {
      endCountdown(world, it.sessionID, changed)
      const entry = world.status.get(it.sessionID)
      if (entry) entry.left = it.reason
      changed.add(`status ${it.sessionID}`)
      return
    }
    default:
      world.counts.unknown++
  }
}

function opened(world: World, resumed: boolean, changed: Set<string>) {
  world.connection++
  if (resumed) return
  world.cursor = null
  world.epoch = world.tick
  world.opening = { status: new Map(), requests: new Map() }
  for (const session of [...world.waiting.keys()]) reorder(world, session, [], changed)
  for (const session of [...world.countdowns.keys()]) endCountdown(world, session, changed)
  for (const [session, window] of world.windows) {
    window.stale = true
    changed.add(`messages ${session}`)
  }
}

// Shows the opening statement: sessions that it does not name are idle, and requests that it does not name are closed.
function settled(world: World, changed: Set<string>) {
  const opening = world.opening
  changed.add("list")
  world.opening = null
  if (opening) state(world, opening, changed)
  world.isKnown = true
}

// Statuses of the opening statement began at a time that the page does not know.
function state(world: World, opening: NonNullable<World["opening"]>, changed: Set<string>) {
  for (const session of new Set([...world.status.keys(), ...opening.status.keys()])) {
    setStatus(world, session, opening.status.get(session) ?? { type: "idle" }, changed)
  }
  for (const id of [...world.requests.keys()]) if (!opening.requests.has(id)) closeRequest(world, id, changed)
  for (const request of opening.requests.values()) ask(world, request, changed)
}

function putSession(world: World, info: Session, began: number, changed: Set<string>) {
  if (world.gone.has(info.id)) return
  const known = world.sessions.get(info.id)
  if (known && known.tick > began) return
  world.sessions.set(info.id, { info, tick: began === Infinity ? world.tick : (known?.tick ?? 0) })
  if (info.parentID) {
    const siblings = world.children.get(info.parentID) ?? new Set()
    world.children.set(info.parentID, siblings.add(info.id))
  }
  changed.add(`session ${info.id}`)
  changed.add("list")
  if (info.seen === undefined) return
  // A mark of another device from before this page was opened.
  if (info.seen === 0 && !known) seenElsewhere(world, info.id, 0, changed)
  else if (info.seen > (world.seen.get(info.id) ?? -1)) markSeen(world, info.id, info.seen, changed)
}

// Adds the members of a family. They have fewer fields than a session, so they never replace what is known.
function readFamily(
  world: World,
  { began, directory, family }: { began: number; directory: string; family: Family },
  changed: Set<string>,
) {
  if (began < world.epoch) return
  // The stream tells statuses.
  for (const { status: _, ...member } of family.sessions) {
    const known = world.sessions.get(member.id)?.info
    putSession(world, known ? { ...known, ...member } : { ...member, directory, isPartial: true }, began, changed)
  }
}

// Adds the sessions of a list, and removes those that were deleted while no stream told so.
function readSessions(
  world: World,
  { began, sessions, covers }: { began: number; sessions: Session[]; covers?: { since: number; rootsOnly: boolean } },
  changed: Set<string>,
) {
  // Sessions that were deleted between this list and the epoch are still in the list.
  if (began < world.epoch) return
  const listed = new Set(sessions.map((info) => info.id))
  for (const info of sessions) putSession(world, info, began, changed)
  if (!covers) return
  for (const { info, tick } of [...world.sessions.values()]) {
    const isCovered = info.time.updated >= covers.since && !(covers.rootsOnly && info.parentID)
    if (isCovered && !listed.has(info.id) && tick <= began) removeSession(world, info.id, changed)
  }
}

function removeSession(world: World, session: string, changed: Set<string>) {
  bury(world, session)
  const parent = world.sessions.get(session)?.info.parentID
  if (parent) world.children.get(parent)?.delete(session)
  for (const map of [world.sessions, world.status, world.windows, world.queues, world.todos, world.errors]) {
    map.delete(session)
  }
  for (const map of [world.unread, world.seen, world.waiting, world.queueTicks, world.countdowns]) map.delete(session)
  for (const request of [...world.requests.values()]) {
    if (request.sessionID === session) closeRequest(world, request.id, changed)
  }
  for (const prompt of [...world.prompts.values()]) {
    // A text that has not reached the server is the only copy.
    const isOnlyHere = prompt.fate === "failed" || prompt.fate === "held"
    if (prompt.sessionID === session && !isOnlyHere) world.prompts.delete(prompt.id)
  }
  changed.add(`session ${session}`)
  changed.add(`messages ${session}`)
  changed.add("list")
}

function setStatus(world: World, session: string, status: Status, changed: Set<string>) {
  if (world.gone.has(session)) return
  if (world.opening) {
    world.opening.status.set(session, status)
    return
  }
  const before = world.status.get(session)
  const was = before?.status.type ?? "idle"
  if (status.type === "idle") {
    // The first idle ends the turn; a repeated one says nothing new.
    if (was === "idle") {
      if (!before) world.status.set(session, { status, since: null })
      return
    }
    finish(queueOf(world, session))
    endCountdown(world, session, changed)
    ended(world, session, status.reason ?? null, before?.since ?? null, changed)
    world.status.set(session, { ...before, status, since: world.now })
  } else {
    const hasBegun = was === "idle"
    if (hasBegun) world.errors.delete(session)
    const since = hasBegun ? (world.isKnown ? world.now : null) : (before?.since ?? null)
    world.status.set(session, { status, since, left: hasBegun ? undefined : before?.left })
    if (hasBegun) world.unread.delete(session)
  }
  changed.add(`status ${session}`)
  changed.add("list")
}

function endCountdown(world: World, session: string, changed: Set<string>) {
  if (world.countdowns.delete(session)) changed.add(`status ${session}`)
}

function lateIdle(world: World, session: string, changed: Set<string>) {
  const type = world.opening ? world.opening.status.get(session)?.type : world.status.get(session)?.status.type
  if (type && type !== "idle") setStatus(world, session, { type: "idle" }, changed)
}

function message(world: World, info: Message, changed: Set<string>) {
  // Some servers put the session next to the message only in another spelling.
  if (typeof info?.sessionID !== "string" || world.gone.has(info.sessionID)) return
  hear(queueOf(world, info.sessionID), info)
  if (info.role === "assistant" && info.time.completed != null && info.tokens) {
    world.tokens.set(info.sessionID, readTokens(info.tokens))
    changed.add(`session ${info.sessionID}`)
  }
  if (info.role === "user") setFate(world, info.id, "queued", changed, ["sending", "held", "failed"])
  changed.add(`status ${info.sessionID}`)
  putMessage(world, info, changed)
}

function queued(world: World, it: { sessionID: string; messageID: string; delivery?: string }, changed: Set<string>) {
  const known = world.prompts.get(it.messageID)
  const delivery = it.delivery === "queue" ? "queue" : "steer"
  const made: Prompt = known ?? {
    id: it.messageID,
    sessionID: it.sessionID,
    text: "",
    delivery,
    fate: "queued",
    created: world.now,
  }
  changed.add(`prompts ${it.sessionID}`)
  if (made.fate === "running") return
  world.prompts.set(made.id, { ...made, delivery, fate: "queued" })
  enqueue(world, it.sessionID, it, changed)
}

// A prompt that leaves the queue has left it for good, also for a read that began before.
function moved(world: World, session: string, prompt: string, changed: Set<string>) {
  world.queueTicks.set(session, world.tick)
  dequeue(world, session, prompt, changed)
}

// A prompt that was sent before may have been answered long ago: then no event about it will come.
function sent(world: World, id: string, isRepeated: boolean, changed: Set<string>) {
  const session = world.prompts.get(id)?.sessionID
  if (session && isRepeated && statusOf(world, session).type === "idle") dropPrompt(world, id, changed)
  else setFate(world, id, "queued", changed, ["sending", "held"])
}

function setFate(world: World, id: string, fate: Prompt["fate"], changed: Set<string>, from?: Prompt["fate"][]) {
  const prompt = world.prompts.get(id)
  if (!prompt || (from && !from.includes(prompt.fate))) return
  world.prompts.set(id, { ...prompt, fate, error: undefined })
  changed.add(`prompts ${prompt.sessionID}`)
}

function fail(world: World, id: string, error: string, changed: Set<string>) {
  const prompt = world.prompts.get(id)
  // The events know better than a lost answer: a prompt that has been seen on the stream has arrived.
  if (!prompt || (prompt.fate !== "sending" && prompt.fate !== "held")) return
  world.prompts.set(id, { ...prompt, fate: "failed", error })
  changed.add(`prompts ${prompt.sessionID}`)
}

function dropPrompt(world: World, id: string, changed: Set<string>) {
  const prompt = world.prompts.get(id)
  if (!prompt) return
  world.prompts.delete(id)
  changed.add(`prompts ${prompt.sessionID}`)
}

function show(world: World, session: string | null, changed: Set<string>) {
  const before = world.visible
  world.visible = session
  if (before) changed.add(`status ${before}`)
  changed.add("list")
  if (world.watched !== session) world.watched = null
  if (!session) return
  changed.add(`status ${session}`)
  world.shown = [...world.shown.filter((other) => other !== session), session]
  for (const old of world.shown.splice(0, Math.max(0, world.shown.length - MAX_SHOWN))) {
    const window = world.windows.get(old)
    if (window) shrink(window)
  }
  const window = windowOf(world, session)
  if (window.partial) {
    window.partial = false
    window.stale = true
  }
}

export const endReason = (world: World, session: string): EndReason | null => {
  const status = world.status.get(session)?.status
  if (status && status.type !== "idle") return null
  // After a reload, only the mark of an unread turn still knows.
  return status?.reason ?? world.unread.get(session)?.reason ?? null
}
