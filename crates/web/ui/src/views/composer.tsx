// The composer: never disabled, and its text and files are kept over reloads until the server has accepted them.

import { Show, createEffect, createMemo, createSignal, onCleanup, onMount } from "solid-js"
import { MAX_PASTED_LINES, type Refusal, pastedText, readFiles } from "../attachments.ts"
import { isBusy } from "../core/state.ts"
import type { Session } from "../core/wire.ts"
import { type Attachment, type Content, forgetEarlier, isEmpty, onAdd, onDraft, readDraft, saveDraft, saveLate } from "../drafts.ts"
import { send } from "../sending.ts"
import { watch, world } from "../store.ts"
import { words } from "../words.ts"
import { AttachButton, Attachments, Earlier } from "./attachments.tsx"
import { ModelChoice, chosen } from "./new.tsx"

// Time after the last key when a draft is stored.
const SAVE_MS = 300

export function Composer(props: { id: string; info?: Session }) {
  const draft = createDraft(props.id)
  const [refused, setRefused] = createSignal<Refusal[]>([])
  const busy = createMemo(() => (watch(`status ${props.id}`), isBusy(world, props.id)))
  let box!: HTMLTextAreaElement
  createEffect(() => {
    draft.text()
    box.style.height = "auto"
    box.style.height = `${Math.min(box.scrollHeight + 2, window.innerHeight / 2)}px`
  })
  onMount(() => draft.bind(box))
  const attach = async (added: File[]) => {
    const { files, refused } = await readFiles(added, draft.files())
    setRefused(refused)
    if (files.length > 0) draft.setFiles([...draft.files(), ...files])
  }
  const submit = (delivery: "steer" | "queue") => {
    const content = { text: draft.text(), files: draft.files() }
    if (isEmpty(content)) return
    send(props.id, content, delivery, chosen(draft.model()))
    draft.clear()
    setRefused([])
    box.focus()
  }
  const keys = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return
    event.preventDefault()
    submit(event.altKey && busy() ? "queue" : "steer")
  }
  const paste = (event: ClipboardEvent) => {
    const files = [...(event.clipboardData?.files ?? [])]
    const text = event.clipboardData?.getData("text/plain") ?? ""
    const isLong = files.length === 0 && text.split("\n", MAX_PASTED_LINES + 1).length > MAX_PASTED_LINES
    if (files.length === 0 && !isLong) return
    event.preventDefault()
    void attach(isLong ? [pastedText(text)] : files)
  }
  const drop = (event: DragEvent) => {
    const files = [...(event.dataTransfer?.files ?? [])]
    if (files.length === 0) return
    event.preventDefault()
    void attach(files)
  }
  const current = () => {
    const it = props.info?.model
    return draft.model() || (it ? `${it.providerID}/${it.id}` : "")
  }
  return (
    <form
      class="composer"
      onDragOver={(event) => event.preventDefault()}
      onDrop={drop}
      onSubmit={(event) => {
        event.preventDefault()
        submit("steer")
      }}
    >
      <Earlier
        earlier={draft.earlier()}
        onTake={(content) => {
          draft.setText(content.text)
          draft.setFiles(content.files)
          void forgetEarlier(props.id)
        }}
        onDiscard={() => void forgetEarlier(props.id)}
      />
      <Attachments files={draft.files()} refused={refused()} onRemove={(at) => draft.setFiles(draft.files().toSpliced(at, 1))} />
      <textarea
        ref={box}
        rows="1"
        value={draft.text()}
        placeholder={words.prompt}
        aria-label={words.promptLabel}
        enterkeyhint="enter"
        onInput={(event) => draft.setText(event.target.value)}
        onKeyDown={keys}
        onPaste={paste}
      />
      <div class="tools">
        <AttachButton onFiles={(files) => void attach(files)} />
        <ModelChoice directory={props.info?.directory} value={current()} onChoose={draft.setModel} />
        <span class="space" />
        <Show when={busy()} fallback={<button class="primary">{words.send}</button>}>
          <button type="button" title={words.queueHint} onClick={() => submit("queue")}>
            {words.queue}
          </button>
          <button class="primary" title={words.steerHint}>
            {words.steer}
          </button>
        </Show>
      </div>
    </form>
  )
}

// The draft of a session as signals. Edits are stored a moment after the last key; edits of other tabs appear here.
function createDraft(session: string) {
  const [text, setText] = createSignal("")
  const [files, setFiles] = createSignal<Attachment[]>([])
  const [model, setModel] = createSignal("")
  const [earlier, setEarlier] = createSignal<Content>()
  let box: HTMLTextAreaElement | undefined
  let base = 0
  let isDirty = false
  let timer: ReturnType<typeof setTimeout> | undefined
  const save = async () => {
    clearTimeout(timer)
    if (!isDirty) return
    isDirty = false
    const edit = { text: text(), files: files(), model: model(), at: box?.selectionStart ?? 0 }
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
    if (stored?.model) setModel(stored.model)
    if (stored && box && document.activeElement !== box) box.setSelectionRange(stored.at, stored.at)
  }
  const leave = () => {
    // The database may not finish before the page ends.
    if (isDirty) saveLate(session, text())
    void save()
  }
  onMount(() => {
    void load()
    window.addEventListener("pagehide", leave)
    const stop = onDraft(session, () => void load())
    const stopAdding = onAdd(session, (more, added) => {
      setText(text().trim() === "" ? more : `${text().trimEnd()}\n\n${more}`)
      setFiles([...files(), ...added])
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
    model,
    earlier,
    bind: (element: HTMLTextAreaElement) => (box = element),
    setText: (value: string) => (setText(value), touch()),
    // There is no time for files when the page ends.
    setFiles: (value: Attachment[]) => (setFiles(value), touch(), void save()),
    setModel: (value: string) => (setModel(value), touch()),
    // The prompt takes the content along; its transaction removes the stored draft.
    clear() {
      clearTimeout(timer)
      isDirty = false
      base = Date.now()
      setText("")
      setFiles([])
    },
  }
}
