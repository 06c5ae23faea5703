// Completion in the composer: the word at the cursor, the meaning of a whole text, and the parts of its mentions.

import { rank, textOf } from "./find.ts"
import type { UserMessage } from "./wire.ts"
import type { World } from "./world.ts"

// The word that is being completed, without its sign, and its range in the text with the sign.
export interface Word {
  sign: "@" | "/"
  query: string
  from: number
  to: number
}

// The word at the cursor: `@…` after a space or at the beginning, `/…` as the first word of the text.
export function wordAt(text: string, cursor: number): Word | undefined {
  const from = text.slice(0, cursor).search(/\S+$/)
  if (from < 0) return undefined
  const sign = text[from]
  const isCommand = sign === "/" && from === 0
  if (sign !== "@" && !isCommand) return undefined
  const rest = text.slice(cursor).search(/\s|$/)
  return { sign: sign as "@" | "/", query: text.slice(from + 1, cursor), from, to: cursor + rest }
}

// A file, an agent or a resource of an MCP server that the user has chosen; `token` stands for it in the text.
export type Mention = { token: string } & (
  | { kind: "file"; path: string }
  | { kind: "agent"; name: string }
  | { kind: "resource"; name: string; server: string; uri: string; mime?: string }
)

// Puts a choice in the place of a word. Returns the new text and the position of the cursor.
export function replaceWord(text: string, word: Word, token: string): { text: string; cursor: number } {
  const after = text.slice(word.to)
  const space = /^\s/.test(after) ? "" : " "
  return { text: text.slice(0, word.from) + token + space + after, cursor: word.from + token.length + 1 }
}

// The range of a mention in the text; nothing if the user has removed it or changed a letter.
function placeOf(text: string, token: string): { start: number; end: number } | undefined {
  for (let start = text.indexOf(token); start >= 0; start = text.indexOf(token, start + 1)) {
    const end = start + token.length
    const isWhole = (start === 0 || /\s/.test(text[start - 1]!)) && (end === text.length || /[\s.,;:!?)\]]/.test(text[end]!))
    if (isWhole) return { start, end }
  }
  return undefined
}

export type MentionPart =
  | { type: "file"; mime: string; filename: string; url: string; source: Record<string, unknown> }
  | { type: "agent"; name: string; source: Record<string, unknown> }

// The address of a file below the session's directory.
function fileAddress(directory: string, path: string): string {
  const whole = /^(\/|[A-Za-z]:)/.test(path) ? path : `${directory.replace(/\/$/, "")}/${path}`
  return `file://${whole.startsWith("/") ? "" : "/"}${whole.split("/").map(encodeURIComponent).join("/")}`
}

// Parts for the mentions that are still in the text, each once.
export function mentionParts(text: string, mentions: Mention[], directory: string): MentionPart[] {
  const seen = new Set<string>()
  return mentions.flatMap((it): MentionPart[] => {
    const place = placeOf(text, it.token)
    if (!place || seen.has(it.token)) return []
    seen.add(it.token)
    const said = { value: it.token, ...place }
    if (it.kind === "agent") return [{ type: "agent", name: it.name, source: said }]
    if (it.kind === "file") {
      const source = { type: "file", path: it.path, text: said }
      return [{ type: "file", mime: "text/plain", filename: it.path, url: fileAddress(directory, it.path), source }]
    }
    const source = { type: "resource", clientName: it.server, uri: it.uri, text: said }
    return [{ type: "file", mime: it.mime ?? "text/plain", filename: it.name, url: it.uri, source }]
  })
}

export type Intent =
  | { kind: "prompt" }
  | { kind: "shell"; command: string }
  | { kind: "stop" }
  | { kind: "compact" }
  | { kind: "command"; name: string; arguments: string }

// The meaning of a text. A text that begins with a slash and no known command is a prompt: it may be a path.
export function intentOf(text: string, commands: string[]): Intent {
  const shell = /^\s*!\s*(\S[^]*)$/.exec(text)
  if (shell) return { kind: "shell", command: shell[1]!.trimEnd() }
  const [, name = "", rest = ""] = /^\s*\/(\S+)\s*([^]*)$/.exec(text) ?? []
  const isPlain = rest.trim() === ""
  if (name === "stop" && isPlain) return { kind: "stop" }
  if (name === "compact" && isPlain) return { kind: "compact" }
  return commands.includes(name) ? { kind: "command", name, arguments: rest.trimEnd() } : { kind: "prompt" }
}

// The best matches of names with what was typed, in the order of their rank.
export function matching<T>(items: T[], name: (item: T) => string, typed: string, limit: number): T[] {
  const scored = items.map((item) => ({ item, score: rank(name(item), typed) })).filter(({ score }) => score > 0)
  // Without a word the order of the source is as good as any.
  if (typed.trim() !== "") scored.sort((left, right) => right.score - left.score)
  return scored.slice(0, limit).map(({ item }) => item)
}

// The line that the user typed for a prompt of a slash command or a shell command.
export function typedLine(info: UserMessage): string | undefined {
  const { type, name, arguments: rest, command } = (info.origin ?? {}) as Record<string, unknown>
  if (type === "shell" && typeof command === "string") return `!${command}`
  if (type === "command" && typeof name === "string") return `/${name} ${typeof rest === "string" ? rest : ""}`.trimEnd()
  return undefined
}

// The most prompts of a session that the arrow keys bring back.
const MAX_HISTORY = 100

// Texts that the user has sent in a session, the newest first, each once.
export function history(world: World, session: string): string[] {
  const found: string[] = []
  for (const { info, parts } of (world.windows.get(session)?.entries ?? []).toReversed()) {
    if (info.role !== "user" || info.continues !== undefined) continue
    const text = typedLine(info) ?? (info.origin === undefined ? textOf(parts.map(({ part }) => part)) : "")
    if (text.trim() !== "" && !found.includes(text)) found.push(text)
    if (found.length >= MAX_HISTORY) break
  }
  return found
}
