// The part of the server's wire format that the page reads. Unknown fields and types pass through untouched.

export interface Tokens {
  input: number
  output: number
  reasoning: number
  cache: { read: number; write: number }
}

export interface Session {
  id: string
  title: string
  directory: string
  projectID?: string
  parentID?: string
  agent?: string
  model?: { id: string; providerID: string; variant?: string }
  summary?: { additions: number; deletions: number; files: number }
  cost?: number
  tokens?: Tokens
  continuation?: { enabled?: boolean; stopped?: string }
  // Messages that are taken back until the next prompt removes them: this one and all later ones.
  revert?: { messageID: string; partID?: string }
  // Position in the log up to which the user has seen the session, on any device.
  seen?: number
  time: { created: number; updated: number; archived?: number }
  // True if only the fields of a family are known.
  isPartial?: boolean
}

// A session and its relatives, as the server sums them up.
export interface Family {
  rootID: string
  sessions: (Omit<Session, "directory"> & { status?: unknown })[]
}

export type EndReason = "completed" | "aborted" | "error" | "blocked" | "interrupted" | "budget" | "withdrawn"

export type Status =
  | { type: "idle"; reason?: EndReason | null }
  | { type: "busy" }
  | { type: "retry"; attempt: number; limit?: number; message: string; next: number; action?: RetryAction }

// A page that the client can offer to the user while a turn waits.
export interface RetryAction {
  title?: string
  label?: string
  url?: string
  link?: string
}

export interface WireError {
  name: string
  data?: unknown
}

export function errorText(error: WireError): string {
  const { message } = (error.data ?? {}) as { message?: unknown }
  return typeof message === "string" ? message : error.name
}

export interface UserMessage {
  role: "user"
  id: string
  sessionID: string
  time: { created: number }
  agent?: string
  model?: { providerID: string; modelID: string }
  continues?: unknown
  // The origin of a prompt whose text the user did not type: a slash command, a shell command, a plugin.
  origin?: unknown
  summary?: { diffs?: FileDiff[] }
}

export interface AssistantMessage {
  role: "assistant"
  id: string
  sessionID: string
  parentID: string
  time: { created: number; completed?: number | null }
  agent?: string
  modelID?: string
  providerID?: string
  cost?: number
  tokens?: Partial<Tokens> & Record<string, unknown>
  error?: WireError
  finish?: string
}

export type Message = UserMessage | AssistantMessage

export interface FileDiff {
  file?: string
  patch?: string
  before?: string
  after?: string
  additions?: number
  deletions?: number
  status?: string
}

export interface ToolState {
  status: "pending" | "running" | "completed" | "error"
  input?: Record<string, unknown>
  title?: string
  output?: string
  error?: string
  metadata?: { diff?: string; filediff?: FileDiff; sessionId?: string; sessionID?: string; exit?: number } & Record<
    string,
    unknown
  >
  time?: { start?: number; end?: number }
}

export interface Part {
  id: string
  sessionID: string
  messageID: string
  type: string
  text?: string
  synthetic?: boolean
  ignored?: boolean
  time?: { start?: number; end?: number; created?: number }
  tool?: string
  callID?: string
  state?: ToolState
  filename?: string
  mime?: string
  url?: string
  files?: string[]
  [field: string]: unknown
}

export interface Permission {
  id: string
  sessionID: string
  rootID?: string
  permission: string
  patterns: string[]
  always: string[]
  metadata?: Record<string, unknown>
  // The server's time at which the request ends without an answer.
  deadline?: number
}

export interface Question {
  question: string
  header?: string
  options: { label: string; description?: string }[]
  multiple?: boolean
  custom?: boolean
}

export interface QuestionRequest {
  id: string
  sessionID: string
  rootID?: string
  questions: Question[]
  deadline?: number
}

export interface Todo {
  id?: string
  content: string
  status: string
}

// The newest prompt of a session and its answer.
export interface LastTurn {
  answer: string
  messages: { info: Message }[]
  steps: number
  tools: unknown[]
  tokens: Tokens
  cost: number
  end?: EndReason
}

export interface WireEvent {
  type: string
  // Events are data of another program: every field is checked or used defensively where it is read.
  properties: any
}

// One frame of the stream of all directories.
export interface Frame {
  id?: number
  directory?: string
  event: WireEvent
}
