// Texts and files that have not been sent, one draft for each session, shared by all tabs of this browser.
//
// The newer edit wins. If two tabs edit the same draft at the same time, the text that loses is kept as the earlier draft.

import type { Mention } from "./core/complete.ts"
import { change, read } from "./storage.ts"

export interface Attachment {
  name: string
  mime: string
  // The content as a `data:` address.
  url: string
}

export interface Content {
  text: string
  files: Attachment[]
  // Files, agents and resources that the text names.
  mentions?: Mention[]
}

export interface Draft extends Content {
  session: string
  // The chosen model and agent, and the position of the cursor.
  model: string
  agent?: string
  at: number
  time: number
  writer: string
  earlier?: Content
}

// The most drafts; the oldest go first.
const MAX_DRAFTS = 200
// Text that was typed immediately before the page was closed. The database may not finish a write by then.
const LATE = "baton draft "

const me = crypto.getRandomValues(new Uint32Array(2)).join("-")
const channel = new BroadcastChannel("baton drafts")
const listeners = new Map<string, Set<() => void>>()

const tellHere = (session: string) => listeners.get(session)?.forEach((listener) => listener())
channel.onmessage = ({ data }: MessageEvent<string>) => tellHere(data)

// Calls the listener after another tab, or another part of this page, has changed the draft.
export function onDraft(session: string, listener: () => void): () => void {
  const known = listeners.get(session) ?? new Set()
  listeners.set(session, known.add(listener))
  return () => {
    known.delete(listener)
    if (known.size === 0) listeners.delete(session)
  }
}

export const isEmpty = ({ text, files }: Content) => text.trim() === "" && files.length === 0

const isSame = (left: Content, right: Content) =>
  left.text === right.text &&
  left.files.length === right.files.length &&
  left.files.every((file, at) => file.url === right.files[at]?.url)

export async function readDraft(session: string): Promise<Draft | undefined> {
  const stored = await read<Draft>("drafts", session).catch(() => undefined)
  const late = takeLate(session)
  if (!late || (stored && stored.time >= late.time)) return stored
  const files = stored?.files ?? []
  const made = { session, files, model: stored?.model ?? "", agent: stored?.agent, at: late.text.length, writer: me, ...late }
  await put(made, Infinity).catch(() => {})
  return made
}

function takeLate(session: string): { text: string; mentions: Mention[]; time: number } | undefined {
  try {
    const found = localStorage.getItem(LATE + session)
    localStorage.removeItem(LATE + session)
    const { text, mentions = [], time } = JSON.parse(found ?? "null")
    return typeof text === "string" && typeof time === "number" ? { text, mentions, time } : undefined
  } catch {
    return undefined
  }
}

// Keeps a text over the end of the page, when there is no time for the database.
export function saveLate(session: string, text: string, mentions: Mention[]) {
  try {
    localStorage.setItem(LATE + session, JSON.stringify({ text, mentions, time: Date.now() }))
  } catch {
    // The storage is full: the last write to the database counts.
  }
}

type Edit = Content & Pick<Draft, "model" | "agent" | "at">

// Stores an edit of a draft that this tab last read or wrote at `base`. Returns the time of the write.
export async function saveDraft(session: string, edit: Edit, base: number): Promise<number> {
  const time = Date.now()
  await put({ session, ...edit, time, writer: me }, base)
  channel.postMessage(session)
  return time
}

const put = (draft: Draft, base: number) =>
  change(["drafts"], (store) => {
    const drafts = store("drafts")
    const request = drafts.get(draft.session)
    request.onsuccess = () => {
      const before = request.result as Draft | undefined
      const isOvertaken = before && before.writer !== me && before.time > base && !isEmpty(before) && !isSame(before, draft)
      const earlier = isOvertaken ? { text: before.text, files: before.files, mentions: before.mentions } : before?.earlier
      if (isEmpty(draft) && !earlier) drafts.delete(draft.session)
      else drafts.put({ ...draft, earlier })
      prune(drafts)
    }
  })

function prune(drafts: IDBObjectStore) {
  const count = drafts.count()
  count.onsuccess = () => {
    if (count.result <= MAX_DRAFTS) return
    const all = drafts.getAll()
    all.onsuccess = () => {
      const oldest = (all.result as Draft[]).sort((left, right) => left.time - right.time)
      for (const { session } of oldest.slice(0, -MAX_DRAFTS)) drafts.delete(session)
    }
  }
}

// Removes a draft in the transaction that stores its prompt, so that the text exists in one place at any time.
export function removeDraft(store: IDBObjectStore, session: string) {
  const request = store.get(session)
  request.onsuccess = () => {
    const before = request.result as Draft | undefined
    if (!before?.earlier) store.delete(session)
    else store.put({ ...before, text: "", files: [], time: Date.now(), writer: me })
  }
}

export const tellDraft = (session: string) => channel.postMessage(session)

export async function forgetEarlier(session: string) {
  const stored = await read<Draft>("drafts", session).catch(() => undefined)
  if (!stored) return
  await change(["drafts"], (store) => {
    if (isEmpty(stored)) store("drafts").delete(session)
    else store("drafts").put({ ...stored, earlier: undefined })
  }).catch(() => {})
  tellHere(session)
  tellDraft(session)
}

type Append = (text: string, files: Attachment[], mentions: Mention[]) => void
const composers = new Map<string, Append>()

// Lets a composer on the screen take added text itself: it may hold an edit that is not stored yet.
export function onAdd(session: string, append: Append): () => void {
  composers.set(session, append)
  return () => composers.get(session) === append && composers.delete(session)
}

// Appends text to a draft, for texts that other parts of the page make, such as a review.
export async function addToDraft(session: string, text: string, files: Attachment[] = [], mentions: Mention[] = []) {
  const composer = composers.get(session)
  if (composer) return composer(text, files, mentions)
  const before = await readDraft(session)
  const joined = before?.text.trim() ? `${before.text.trimEnd()}\n\n${text}` : text
  const edit = {
    text: joined,
    files: [...(before?.files ?? []), ...files],
    mentions: [...(before?.mentions ?? []), ...mentions],
    model: before?.model ?? "",
    agent: before?.agent,
    at: joined.length,
  }
  await saveDraft(session, edit, before?.time ?? 0).catch(() => {})
  tellHere(session)
}
