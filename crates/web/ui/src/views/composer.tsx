// The composer: never disabled, and its text is kept over reloads until the server has accepted it.

import { Show, createEffect, createMemo, createSignal, onCleanup, onMount, untrack } from "solid-js"
import { taken } from "../compose.ts"
import { isBusy } from "../core/state.ts"
import type { Session } from "../core/wire.ts"
import { draft, saveDraft } from "../drafts.ts"
import { send, watch, world } from "../store.ts"
import { words } from "../words.ts"
import { ModelChoice, chosen } from "./new.tsx"

// Time after the last key when a draft is stored.
const SAVE_MS = 300

export function Composer(props: { id: string; info?: Session }) {
  const [text, setText] = createSignal(draft(props.id))
  const [model, setModel] = createSignal("")
  const busy = createMemo(() => (watch(`status ${props.id}`), isBusy(world, props.id)))
  let box!: HTMLTextAreaElement
  let timer: ReturnType<typeof setTimeout> | undefined
  const save = () => saveDraft(props.id, text())
  createEffect(() => {
    text()
    clearTimeout(timer)
    timer = setTimeout(save, SAVE_MS)
    box.style.height = "auto"
    box.style.height = `${Math.min(box.scrollHeight + 2, window.innerHeight / 2)}px`
  })
  createEffect(() => {
    const more = taken(props.id)
    if (more === undefined) return
    setText(untrack(text).trim() === "" ? more : `${untrack(text)}\n\n${more}`)
    box.focus()
  })
  onMount(() => window.addEventListener("pagehide", save))
  onCleanup(() => {
    clearTimeout(timer)
    save()
    window.removeEventListener("pagehide", save)
  })
  const submit = (delivery: "steer" | "queue") => {
    if (text().trim() === "") return
    send(props.id, text(), delivery, chosen(model()))
    setText("")
    saveDraft(props.id, "")
    box.focus()
  }
  const keys = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return
    event.preventDefault()
    submit(event.altKey && busy() ? "queue" : "steer")
  }
  const current = () => {
    const it = props.info?.model
    return model() || (it ? `${it.providerID}/${it.id}` : "")
  }
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault()
        submit("steer")
      }}
    >
      <textarea
        ref={box}
        rows="1"
        value={text()}
        placeholder={words.prompt}
        aria-label={words.promptLabel}
        onInput={(event) => setText(event.target.value)}
        onKeyDown={keys}
      />
      <div class="tools">
        <ModelChoice directory={props.info?.directory} value={current()} onChoose={setModel} />
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
