// Calls of the server. Addresses are relative to the page, so that it works behind any prefix.

import type { Operations } from "../generated/server.ts"

// Every route that the page uses. The types come from the server's document: a route that it does not have does not
// compile.
export const ROUTES = {
  me: "GET /web/me",
  login: "POST /web/login",
  sessions: "GET /experimental/session",
  session: "GET /session/{sessionID}",
  create: "POST /session",
  children: "GET /session/{sessionID}/children",
  messages: "GET /session/{sessionID}/message",
  prompt: "POST /session/{sessionID}/prompt_async",
  command: "POST /session/{sessionID}/command",
  shell: "POST /session/{sessionID}/shell",
  summarize: "POST /session/{sessionID}/summarize",
  family: "GET /session/{sessionID}/family",
  seen: "PUT /session/{sessionID}/seen",
  queue: "GET /session/{sessionID}/queue",
  requeue: "PATCH /session/{sessionID}/queue/{messageID}",
  withdraw: "DELETE /session/{sessionID}/queue/{messageID}",
  turn: "GET /session/{sessionID}/turn",
  continuation: "POST /session/{sessionID}/continuation",
  update: "PATCH /session/{sessionID}",
  abort: "POST /session/{sessionID}/abort",
  permission: "POST /permission/{requestID}/reply",
  question: "POST /question/{requestID}/reply",
  reject: "POST /question/{requestID}/reject",
  providers: "GET /config/providers",
  path: "GET /path",
  diff: "GET /session/{sessionID}/diff",
  todos: "GET /session/{sessionID}/todo",
  vcs: "GET /vcs",
  vcsDiff: "GET /vcs/diff",
  apply: "POST /vcs/apply",
  files: "GET /file",
  content: "GET /file/content",
  fileStatus: "GET /file/status",
  find: "GET /find",
  findFile: "GET /find/file",
  findMessage: "GET /find/message",
  commands: "GET /command",
  resources: "GET /experimental/resource",
  allProviders: "GET /provider",
  saveKey: "PUT /auth/{providerID}",
  removeKey: "DELETE /auth/{providerID}",
  logins: "GET /provider/auth",
  beginLogin: "POST /provider/{providerID}/oauth/authorize",
  completeLogin: "POST /provider/{providerID}/oauth/callback",
  removeSession: "DELETE /session/{sessionID}",
  fork: "POST /session/{sessionID}/fork",
  revert: "POST /session/{sessionID}/revert",
  unrevert: "POST /session/{sessionID}/unrevert",
  approvals: "GET /api/permission/saved",
  forget: "DELETE /api/permission/saved/{id}",
  mcp: "GET /mcp",
  mcpConnect: "POST /mcp/{name}/connect",
  mcpDisconnect: "POST /mcp/{name}/disconnect",
  browsers: "GET /web/session",
  signOut: "DELETE /web/session/{browserID}",
  logout: "POST /web/logout",
  health: "GET /global/health",
  agents: "GET /agent",
  terminals: "GET /pty",
  openTerminal: "POST /pty",
  changeTerminal: "PUT /pty/{ptyID}",
  closeTerminal: "DELETE /pty/{ptyID}",
  terminalTicket: "POST /pty/{ptyID}/connect-token",
  worktree: "POST /experimental/worktree",
  events: "GET /global/event",
} as const satisfies Record<string, keyof Operations>

type Route = keyof typeof ROUTES
export type Body<R extends Route> = Operation<R>["body"]
type Operation<R extends Route> = Operations[(typeof ROUTES)[R]]

export class Failure extends Error {
  status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

// The name under which other clients see the answers of this page.
const CLIENT = { "x-baton-client": "web" }
// A call that takes longer than this has failed.
const DEADLINE_MS = 30_000

// A field that can be left out if the route does not need it.
type Field<Name extends string, T> = Partial<T> extends T ? { [N in Name]?: T } : { [N in Name]: T }

// `deadline` replaces the usual one, in milliseconds.
interface Extra {
  headers?: Record<string, string>
  deadline?: number
}

// `in` holds the values of the names in the path.
type Options<R extends Route> = Field<"in", Operation<R>["path"]> &
  Field<"query", Operation<R>["query"]> &
  Field<"body", Operation<R>["body"]> & Extra

export async function call<R extends Route>(
  route: R,
  ...[given]: Partial<Options<R>> extends Options<R> ? [Options<R>?] : [Options<R>]
) {
  const options: { in?: Record<string, string>; query?: object; body?: unknown } & Extra = given ?? {}
  const [method, pattern] = ROUTES[route].split(" ") as [string, string]
  const path = pattern.slice(1).replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(options.in?.[name] ?? ""))
  const query = Object.entries(options.query ?? {}).filter((pair) => pair[1] !== undefined)
  const search = query.length > 0 ? `?${new URLSearchParams(query.map(([name, value]) => [name, String(value)]))}` : ""
  const response = await fetch(path + search, {
    method,
    headers: { ...CLIENT, ...options.headers, ...(options.body === undefined ? {} : { "content-type": "application/json" }) },
    body: options.body === undefined ? undefined : JSON.stringify(options.body),
    signal: AbortSignal.timeout(options.deadline ?? DEADLINE_MS),
  })
  if (!response.ok) throw new Failure(response.status, await reason(response))
  const data = response.status === 204 ? undefined : await response.json()
  return { data: data as Operation<R>["answer"], headers: response.headers }
}

async function reason(response: Response): Promise<string> {
  const body = await response.json().catch(() => undefined)
  return body?.data?.message ?? body?.message ?? `The server answered ${response.status}.`
}

export const openEvents = (cursor: number | null, signal: AbortSignal) =>
  fetch("global/event", { headers: cursor === null ? {} : { "last-event-id": String(cursor) }, signal, cache: "no-store" })

// An id that sorts by time, as the server makes them.
let last = 0
export function messageId(now: number): string {
  const random = crypto.getRandomValues(new Uint8Array(14))
  const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
  last = Math.max(last + 1, now * 0x1000)
  const time = (BigInt(last) & 0xffffffffffffn).toString(16).padStart(12, "0")
  return `msg_${time}${[...random].map((byte) => digits[byte % digits.length]).join("")}`
}
