// The state that the page shows: plain data, changed by `fold` only.

import type { Notice } from "./notices.ts"
import type { Ending } from "./requests.ts"
import type { Waiting } from "./waiting.ts"
import type { EndReason, Message, Part, Permission, QuestionRequest, Session, Status, Todo, Tokens } from "./wire.ts"

// A part, with the time of its last change and the connection whose stream introduced it.
export interface PartEntry {
  part: Part
  tick: number
  connection: number
}

export interface MessageEntry {
  info: Message
  tick: number
  parts: PartEntry[]
}

// A jump to an old message leaves the messages after its page out.
export interface Gap {
  // The last message before the gap.
  last: string
  // Cursor of the page after it.
  newer: string
}

// The loaded messages of one session, oldest first.
export interface Window {
  entries: MessageEntry[]
  // Cursor of the page before the first entry; null if there is none.
  older: string | null
  // Messages that are not loaded between two loaded ones; null if there are none.
  gap: Gap | null
  // Time at which the newest applied read began.
  read: number
  // True if only open parts are kept, because the session is not shown.
  partial: boolean
  // True if the entries must be read again.
  stale: boolean
}

export type Request =
  | { kind: "permission"; id: string; sessionID: string; rootID?: string; body: Permission }
  | { kind: "question"; id: string; sessionID: string; rootID?: string; body: QuestionRequest }

export interface StatusEntry {
  status: Status
  // Time of the last change by the page's clock; null if the change was not observed.
  since: number | null
  // The reason why the last turn left todos open.
  left?: string
}

// A prompt on its way: `sending` until the server has stored it, `held` while the server cannot be reached, `failed` if
// the server has refused it.
export interface Prompt {
  id: string
  sessionID: string
  text: string
  delivery: "steer" | "queue"
  fate: "sending" | "held" | "queued" | "running" | "failed"
  // Names of the attached files.
  files?: string[]
  error?: string
  created: number
}

// A turn that continues by itself at a time of the server's clock, unless a client stops it.
export interface Countdown {
  n: number
  open: number
  until: number
}

// The end of a turn that the user has not seen, with the id of its event; 0 if the server does not number events.
export interface Unread {
  reason: EndReason | null
  id: number
  // The user has asked for the mark.
  isAsked?: boolean
}

// Prompts of a session that no turn has taken up, for servers that report them by messages only.
export interface Queue {
  waiting: string[]
  begun: string[]
  isAnswering: boolean
}

export type Phase =
  | { kind: "connecting" }
  | { kind: "live" }
  | { kind: "waiting"; until: number; since: number }
  | { kind: "signin" }
  | { kind: "refused"; message: string }

export interface World {
  now: number
  // The server's clock minus the page's.
  offset: number
  // Counts inputs, so that a read can be compared with the frames that arrived while it was made.
  tick: number
  // Counts connections of the stream.
  connection: number
  // Time at which the last epoch began: the stream says nothing about changes before it.
  epoch: number
  cursor: number | null
  // The newest position in the server's log when this connection began.
  position: number
  phase: Phase
  // Collects the opening statement of a new epoch until it is complete.
  opening: { status: Map<string, Status>; requests: Map<string, Request> } | null
  // False until the first opening statement is complete.
  isKnown: boolean
  sessions: Map<string, { info: Session; tick: number }>
  children: Map<string, Set<string>>
  status: Map<string, StatusEntry>
  requests: Map<string, Request>
  // Requests that this page answers now, and the ends of the latest ones.
  answering: Set<string>
  endings: Map<string, Ending>
  windows: Map<string, Window>
  queues: Map<string, Queue>
  prompts: Map<string, Prompt>
  tokens: Map<string, Tokens>
  todos: Map<string, Todo[]>
  errors: Map<string, string>
  unread: Map<string, Unread>
  // The newest event that the user has seen in a session.
  seen: Map<string, number>
  // The newest end of a turn in a session.
  ends: Map<string, Unread>
  // Events that the user has seen in this tab and that the server has not been told of.
  owed: Map<string, number>
  // The session that the user looks at: shown at its end, in a visible and focused tab.
  watched: string | null
  waiting: Map<string, Waiting[]>
  // Time at which the order of a queue was last stated.
  queueTicks: Map<string, number>
  countdowns: Map<string, Countdown>
  // Events that have not been offered to the user as a notification.
  notices: Notice[]
  // Ids of deleted sessions, messages and parts: a late read must not bring them back.
  gone: Set<string>
  // Shown sessions, the visible one last.
  shown: string[]
  visible: string | null
  // Messages that the stream mentions and the page must read, as `session message`, with the time of the mention.
  wanted: Map<string, number>
  counts: { duplicates: number; unreadable: number; unknown: number; differences: number }
}

export function createWorld(): World {
  return {
    now: 0,
    offset: 0,
    tick: 0,
    connection: 0,
    epoch: 0,
    cursor: null,
    position: 0,
    phase: { kind: "connecting" },
    opening: null,
    isKnown: false,
    sessions: new Map(),
    children: new Map(),
    status: new Map(),
    requests: new Map(),
    answering: new Set(),
    endings: new Map(),
    windows: new Map(),
    queues: new Map(),
    prompts: new Map(),
    tokens: new Map(),
    todos: new Map(),
    errors: new Map(),
    unread: new Map(),
    seen: new Map(),
    ends: new Map(),
    owed: new Map(),
    watched: null,
    waiting: new Map(),
    queueTicks: new Map(),
    countdowns: new Map(),
    notices: [],
    gone: new Set(),
    shown: [],
    visible: null,
    wanted: new Map(),
    counts: { duplicates: 0, unreadable: 0, unknown: 0, differences: 0 },
  }
}

// The most sessions whose messages are kept: the visible one and the five before it.
export const MAX_SHOWN = 6
// The most tombstones; the oldest are forgotten first.
export const MAX_GONE = 10_000
// The most characters of a tool's output that are kept.
export const MAX_OUTPUT = 64 * 1024
// The most started prompts that are remembered per session.
export const MAX_BEGUN = 32
