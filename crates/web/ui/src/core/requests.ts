// Requests: permissions and questions that wait for the user, and the ends of those that were on the screen.
//
// A request ends by an answer of this page, of another client, by an approval, or unanswered at its deadline. The page
// tells the ends that the user has not caused here.

import { noticeRequest } from "./notices.ts"
import { rootOf } from "./state.ts"
import { bury } from "./transcript.ts"
import type { Request, World } from "./world.ts"

export type Outcome = "once" | "always" | "reject" | "answered" | "dismissed"

export interface Ending {
  request: Request
  // Absent until the stream has told the outcome.
  outcome?: Outcome
  // The kind of the origin, and the name that a client gave itself.
  by?: { kind: string; name?: string }
  // True if no client has answered in time.
  isUnanswered?: boolean
  // True while the answer of this page is, or may be, the one that counts.
  isOwn: boolean
  at: number
}

// The most ends that are remembered; the oldest go first.
const MAX_ENDINGS = 20

// The time for which the answer of another client is shown.
const SHOWN_MS = 8_000

export function ask(world: World, request: Request, changed: Set<string>) {
  if (world.gone.has(request.id) || world.gone.has(request.sessionID)) return
  const requests = world.opening ? world.opening.requests : world.requests
  // Servers repeat open requests to every new connection.
  if (requests.has(request.id)) return
  requests.set(request.id, request)
  if (world.opening) return
  noticeRequest(world, request.rootID ?? rootOf(world, request.sessionID), request.id)
  tell(request, changed)
}

// Closes a request. Returns it if it was open.
export function closeRequest(world: World, id: string, changed: Set<string>): Request | undefined {
  bury(world, id)
  world.opening?.requests.delete(id)
  const request = world.requests.get(id)
  if (!request) return undefined
  world.requests.delete(id)
  tell(request, changed)
  return request
}

export interface Told {
  requestID: string
  by?: { kind: string; name?: string }
  unanswered?: boolean
}

// The stream tells an answer.
export function replied(world: World, { requestID: id, by, unanswered }: Told, outcome: Outcome, changed: Set<string>) {
  const request = closeRequest(world, id, changed) ?? world.endings.get(id)?.request
  if (!request) return
  // The server withdraws requests with their turn: the end of the turn tells that.
  if (by?.kind === "server" && !unanswered) return void world.endings.delete(id)
  const isOwn = world.endings.get(id)?.isOwn ?? world.answering.has(id)
  remember(world, { request, outcome, by, isUnanswered: unanswered, isOwn, at: world.now })
  changed.add("requests")
}

// This page has answered; `isElsewhere` if the server no longer had the request.
export function answered(world: World, id: string, isElsewhere: boolean, changed: Set<string>) {
  world.answering.delete(id)
  const request = closeRequest(world, id, changed) ?? world.endings.get(id)?.request
  if (!request) return
  remember(world, { ...world.endings.get(id), request, isOwn: !isElsewhere, at: world.now })
  changed.add("requests")
}

function remember(world: World, ending: Ending) {
  const { id } = ending.request
  world.endings.delete(id)
  world.endings.set(id, ending)
  const oldest = world.endings.keys().next().value
  if (world.endings.size > MAX_ENDINGS && oldest !== undefined) world.endings.delete(oldest)
}

export function forgetEnding(world: World, id: string, changed: Set<string>) {
  if (world.endings.delete(id)) changed.add("requests")
}

// The ends to show for these sessions: answers of others for a moment, unanswered requests until the user closes them.
export function shownEndings(world: World, sessions: string[]): Ending[] {
  return [...world.endings.values()].filter(({ request, isOwn, isUnanswered, at }) => {
    const isHere = sessions.includes(request.sessionID) || (request.rootID !== undefined && sessions.includes(request.rootID))
    return isHere && !isOwn && (isUnanswered || world.now - at < SHOWN_MS)
  })
}

// Other open permissions of the same kind as this one, which can be allowed together with it.
export const sameKind = (requests: Request[], one: Request): Request[] =>
  requests.filter((it) => it.kind === "permission" && one.kind === "permission" && it.body.permission === one.body.permission)

function tell(request: Request, changed: Set<string>) {
  changed.add("requests")
  changed.add(`status ${request.sessionID}`)
  changed.add("list")
}
