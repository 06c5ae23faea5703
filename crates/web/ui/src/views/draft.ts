// The draft of a composer as signals, stored in the browser.

import { createSignal, onCleanup, onMount } from "solid-js"
import type { Mention } from "../core/complete.ts"
import { type Attachment, type Content, onAdd, onDraft, readDraft, saveDraft, saveLate } from "../drafts.ts"

// Time after the last key when a draft is stored.
const SAVE_MS = 300
// The most mentions that a draft remembers; the server takes no more files.
const MAX_MENTIONS = 100

// The draft of a session as signals. Edits are stored a moment after the last key; edits of other tabs appear here.
export function createDraft(session: string) {
  const [text, setText] = createSignal("")
  const [files, setFiles] = createSignal<Attachment[]>([])
  const [mentions, setMentions] = createSignal<Mention[]>([])
  const [model, setModel] = createSignal("")
  const [agent, setAgent] = createSignal("")
  const [earlier, setEarlier] = createSignal<Content>()
  let box: HTMLTextAreaElement | undefined
  let base = 0
  let isDirty = false
  let timer: ReturnType<typeof setTimeout> | undefined
  const save = async () => {
    clearTimeout(timer)
    if (!isDirty) return
    isDirty = false
    const edit = { text: text(), files: files(), mentions: mentions(), model: model(), agent: agent(), at: box?.selectionStart ?? 0 }
    base = await saveDraft(session, edit, base).catch(() => base)
  }
  const touch = () => {
    isDirty = true
    clearTimeout(timer)
    timer = setTimeout(() => void save(), SAVE_MS)
  }
  const load = async () => {
    const stored = await readDraft(session)
    setEarlier(stored?.earlier)
    // An edit of this tab that is not stored yet is newer.
    if (isDirty) return
    base = stored?.time ?? base
    setText(stored?.text ?? "")
    setFiles(stored?.files ?? [])
    setMentions(stored?.mentions ?? [])
    if (stored?.model) setModel(stored.model)
    if (stored?.agent) setAgent(stored.agent)
    if (stored && box && document.activeElement !== box) box.setSelectionRange(stored.at, stored.at)
  }
  const leave = () => {
    // The database may not finish before the page ends.
    if (isDirty) saveLate(session, text(), mentions())
    void save()
  }
  onMount(() => {
    void load()
    window.addEventListener("pagehide", leave)
    const stop = onDraft(session, () => void load())
    const stopAdding = onAdd(session, (more, added, named) => {
      setText(text().trim() === "" ? more : `${text().trimEnd()}\n\n${more}`)
      setFiles([...files(), ...added])
      setMentions([...mentions(), ...named])
      touch()
      void save()
    })
    onCleanup(() => {
      stop()
      stopAdding()
      window.removeEventListener("pagehide", leave)
      void save()
    })
  })
  return {
    text,
    files,
    mentions,
    model,
    agent,
    earlier,
    bind: (element: HTMLTextAreaElement) => (box = element),
    setText: (value: string) => (setText(value), touch()),
    // There is no time for files when the page ends.
    setFiles: (value: Attachment[]) => (setFiles(value), touch(), void save()),
    addMention: (value: Mention) => (setMentions([...mentions(), value].slice(-MAX_MENTIONS)), touch()),
    setAgent: (value: string) => (setAgent(value), touch()),
    setModel: (value: string) => (setModel(value), touch()),
    // The prompt takes the content along; its transaction removes the stored draft.
    clear() {
      clearTimeout(timer)
      isDirty = false
      base = Date.now()
      setText("")
      setFiles([])
      setMentions([])
    },
  }
}
