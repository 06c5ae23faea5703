// Prompts that are taken back: the messages that a pending revert hides, and what it undoes.

import { textOf } from "./find.ts"
import type { Part, Session } from "./wire.ts"
import type { MessageEntry } from "./world.ts"

export interface Turn {
  // The text and the files of the prompt, and the text of its answer.
  prompt: string
  attached: { name: string; mime: string; url: string }[]
  answer: string
  // The prompts from this one on, and the files that their turns have changed.
  prompts: number
  files: string[]
}

const textIn = (entry: MessageEntry) => textOf(entry.parts.filter(({ part }) => part.type === "text").map(({ part }) => part))

// Only a file whose content is in the part can be sent again.
function attachment({ type, filename, mime, url }: Part) {
  return type === "file" && url?.startsWith("data:") ? [{ name: filename ?? "file", mime: mime ?? "text/plain", url }] : []
}

// The prompts and files that a revert to a prompt would undo.
export function turnOf(entries: MessageEntry[], prompt: string): Turn {
  const at = entries.findIndex((entry) => entry.info.id === prompt)
  if (at < 0) return { prompt: "", attached: [], answer: "", prompts: 0, files: [] }
  const from = entries.slice(at)
  const next = from.findIndex((entry, index) => index > 0 && entry.info.role === "user")
  const answers = from.slice(1, next < 0 ? undefined : next)
  const files = from.flatMap(({ parts }) => parts.flatMap(({ part }) => (part.type === "patch" && Array.isArray(part.files) ? part.files.map(String) : [])))
  return {
    prompt: textIn(from[0]!),
    attached: from[0]!.parts.flatMap(({ part }) => attachment(part)),
    answer: answers.map(textIn).filter(Boolean).join("\n\n"),
    prompts: from.filter((entry) => entry.info.role === "user" && entry.info.continues === undefined).length,
    files: [...new Set(files)],
  }
}

// The messages that a pending revert does not hide.
export function shownEntries(entries: MessageEntry[], revert: Session["revert"]): MessageEntry[] {
  if (!revert) return entries
  const at = entries.findIndex((entry) => entry.info.id === revert.messageID)
  // The first reverted message is not loaded: its id tells which ones came before it.
  if (at < 0) return entries.filter((entry) => entry.info.id < revert.messageID)
  return entries.slice(0, revert.partID ? at + 1 : at)
}
