// The composer: never disabled, and its text and files are kept over reloads until the server has accepted them.

import { Show, createEffect, createMemo, createSignal, onMount } from "solid-js"
import { stopTurn, summarise } from "../acts.ts"
import { MAX_PASTED_LINES, type Refusal, pastedText, readFiles } from "../attachments.ts"
import { type Intent, intentOf } from "../core/complete.ts"
import { isBusy } from "../core/state.ts"
import type { Session } from "../core/wire.ts"
import { forgetEarlier, isEmpty } from "../drafts.ts"
import { type Run, send } from "../sending.ts"
import { watch, world } from "../store.ts"
import { words } from "../words.ts"
import { AttachButton, Attachments, Earlier } from "./attachments.tsx"
import { CompletionList, createCompletion } from "./completion.tsx"
import { createDraft } from "./draft.ts"
import { createHistory } from "./history.ts"
import { AgentChoice, ModelChoice, chosen } from "./choices.tsx"

// The agent of a shell command in a session that has not had a turn.
const DEFAULT_AGENT = "build"

// A phone or a tablet without a mouse.
const isTouch = matchMedia("(hover: none) and (pointer: coarse)").matches

const reasonOf = (failure: unknown) => (failure instanceof Error ? failure.message : String(failure))

export function Composer(props: { id: string; info?: Session }) {
  const draft = createDraft(props.id)
  const [refused, setRefused] = createSignal<Refusal[]>([])
  const [error, setError] = createSignal("")
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
  const completion = createCompletion({
    directory: () => props.info?.directory,
    text: draft.text,
    box: () => box,
    onChoose(text, cursor, mention) {
      draft.setText(text)
      if (mention) draft.addMention(mention)
      box.focus()
      box.setSelectionRange(cursor, cursor)
    },
  })
  const intent = (): Intent => intentOf(draft.text(), completion.commandNames() ?? [])
  const isShell = () => intent().kind === "shell"
  const submit = (delivery: "steer" | "queue") => {
    const text = draft.text()
    const content = { text, files: draft.files(), mentions: draft.mentions() }
    if (isEmpty(content)) return
    setError("")
    const it = intent()
    // A slash may begin a command that is not known yet.
    if (it.kind === "prompt" && text.startsWith("/") && !completion.commandNames()) return awaitCommands(text, delivery)
    if (it.kind === "stop" || it.kind === "compact") return act(it.kind)
    if (it.kind === "shell" && busy()) return void setError(words.shellBusy)
    const run: Run | undefined = it.kind === "prompt" ? undefined : it.kind === "shell" ? { ...it, agent: agent() || DEFAULT_AGENT } : it
    // A shell takes no files: they stay for the next prompt.
    const kept = it.kind === "shell" ? content.files : []
    send(props.id, { ...content, files: it.kind === "shell" ? [] : content.files }, delivery, { model: chosen(draft.model()), agent: draft.agent() || undefined, run })
    leave(kept)
  }
  const leave = (kept = draft.files()) => {
    draft.clear()
    if (kept.length > 0) draft.setFiles(kept)
    completion.close()
    past.reset()
    setRefused([])
    box.focus()
  }
  // The submit that waits for the list of commands.
  const [awaiting, setAwaiting] = createSignal<{ text: string; delivery: "steer" | "queue" }>()
  const awaitCommands = (text: string, delivery: "steer" | "queue") => {
    if (completion.commandError()) setError(completion.commandError())
    else setAwaiting({ text, delivery })
  }
  createEffect(() => {
    const it = awaiting()
    if (!it || (!completion.commandNames() && !completion.commandError())) return
    setAwaiting(undefined)
    if (draft.text() === it.text) submit(it.delivery)
  })
  // Commands of the page itself. Their text stays in the box until the server has accepted them.
  const act = async (kind: "stop" | "compact") => {
    const text = draft.text()
    try {
      if (kind === "stop") await stopTurn(props.id)
      else if (!(await summarise(props.id, chosen(current())))) return void setError(words.nothingToSummarise)
      if (draft.text() === text) leave()
    } catch (failure) {
      setError(reasonOf(failure))
    }
  }
  const past = createHistory(props.id, draft.text, (text) => {
    draft.setText(text)
    box.setSelectionRange(text.length, text.length)
  })
  const keys = (event: KeyboardEvent) => {
    if (completion.keys(event) || past.keys(event)) return
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return
    // A keyboard on the screen has no other key for a new line; a button sends.
    if (isTouch && !event.altKey && !event.ctrlKey && !event.metaKey) return
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
  const agent = () => draft.agent() || (props.info?.agent ?? "")
  const current = () => {
    const it = props.info?.model
    return draft.model() || (it ? `${it.providerID}/${it.id}` : "")
  }
  return (
    <form
      class="composer"
      data-busy={busy() ? "" : undefined}
      data-mode={isShell() ? "shell" : undefined}
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
          for (const mention of content.mentions ?? []) draft.addMention(mention)
          void forgetEarlier(props.id)
        }}
        onDiscard={() => void forgetEarlier(props.id)}
      />
      <Attachments files={draft.files()} refused={refused()} onRemove={(at) => draft.setFiles(draft.files().toSpliced(at, 1))} />
      <CompletionList of={completion} />
      <textarea
        ref={box}
        rows="1"
        value={draft.text()}
        placeholder={isTouch ? words.promptTouch : words.prompt}
        aria-label={words.promptLabel}
        enterkeyhint="enter"
        {...completion.combobox()}
        onInput={(event) => {
          draft.setText(event.target.value)
          past.reset()
          setError("")
          completion.look(event.isComposing)
        }}
        onCompositionEnd={() => completion.look()}
        onClick={() => completion.look()}
        onKeyUp={(event) => /^(Arrow(Left|Right)|Home|End)$/.test(event.key) && completion.look(event.isComposing)}
        onBlur={() => completion.close()}
        onKeyDown={keys}
        onPaste={paste}
      />
      <Show when={error()}>
        <p class="error" role="alert">
          {error()}
        </p>
      </Show>
      <div class="tools">
        <AttachButton onFiles={(files) => void attach(files)} />
        <ModelChoice directory={props.info?.directory} value={current()} onChoose={draft.setModel} />
        <AgentChoice directory={props.info?.directory} value={agent()} onChoose={draft.setAgent} />
        <Show when={isShell()}>
          <span class="fate">{words.shellHint}</span>
        </Show>
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
