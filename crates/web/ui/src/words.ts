// Every sentence of the page, in English.

import type { EndReason } from "./core/wire.ts"
import type { RowState } from "./core/state.ts"

const STATES: Record<RowState, string> = {
  needs: "needs you",
  error: "failed",
  retrying: "retrying",
  working: "working",
  queued: "queued",
  done: "done",
  idle: "idle",
}

const ENDS: Record<EndReason, string> = {
  completed: "Completed",
  aborted: "Stopped",
  error: "Ended with an error",
  blocked: "Stopped: a request was refused",
  interrupted: "Interrupted: the server stopped",
  budget: "Stopped: the budget is used up",
  withdrawn: "Withdrawn",
}

export const words = {
  sessions: "Sessions",
  newSession: "New session",
  noSessions: "No session yet. Write the first prompt.",
  choose: "Choose a session, or start a new one.",
  more: "Show more sessions",
  search: "Filter by title",
  back: "All sessions",
  stop: "Stop",
  stopping: "Stopping…",
  send: "Send",
  steer: "Steer",
  queue: "Queue",
  steerHint: "joins the turn at its next step (Enter)",
  queueHint: "runs after this turn (Alt+Enter)",
  prompt: "Write a prompt. Enter sends, Shift+Enter starts a new line.",
  promptLabel: "Prompt",
  directory: "Directory",
  model: "Model",
  defaultModel: "Default model",
  start: "Start",
  earlier: "Load earlier messages",
  newest: "Newest ↓",
  thinking: "Thinking",
  thought: "Thought",
  sending: "sending…",
  queued: "queued",
  failed: "not sent",
  tryAgain: "Try again",
  discard: "Discard",
  showAll: "Show all",
  isCut: "The output is longer than shown here.",
  signIn: "Sign in",
  signInText: "This server has a password.",
  user: "User name",
  password: "Password",
  now: "Now",
  newerPage: "A newer page is ready.",
  reload: "Reload",
  loading: "Loading…",
  notFound: "This session does not exist any more.",
  permission: "Permission",
  question: "Question",
  once: "Allow once",
  always: "Always…",
  alwaysSure: "Always allow",
  alwaysFor: "From now on, without asking:",
  cancel: "Cancel",
  reject: "Reject",
  answer: "Answer",
  dismiss: "Dismiss",
  own: "Or in your own words",
  copied: "Copied",
  copy: "Copy",
  todos: "Todos",
  subagent: "subagent",
  openChild: "Open session",
  state: (state: RowState) => STATES[state],
  end: (reason: EndReason | null) => (reason ? (ENDS[reason] ?? reason) : "Idle"),
  attempt: (attempt: number, seconds: number) => `Attempt ${attempt}; next try in ${seconds} s`,
  lastEvent: (seconds: number) => `Reconnecting… connection lost ${seconds} s ago`,
  changed: (count: number) => (count === 1 ? "changed 1 file" : `changed ${count} files`),
  of: (index: number, count: number) => `${index} of ${count}`,
  left: (count: number) => `${count} open`,
  steps: (input: string, output: string) => `${input} tokens in, ${output} out`,
}

export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000))
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes}:${String(seconds % 60).padStart(2, "0")}`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "narrow" })

export function age(then: number, now: number): string {
  const minutes = Math.round((then - now) / 60_000)
  if (minutes > -1) return "now"
  if (minutes > -60) return relative.format(minutes, "minute")
  if (minutes > -1_440) return relative.format(Math.round(minutes / 60), "hour")
  return relative.format(Math.round(minutes / 1_440), "day")
}

export const count = (value: number) => new Intl.NumberFormat("en", { notation: "compact" }).format(value)
