// Prompts that wait for a turn, above the composer: edit, move, steer or withdraw them.

import { For, Show, createEffect, createMemo, createSignal } from "solid-js"
import { type Body, Failure, call } from "../api.ts"
import { isStarting, waitingBehind } from "../core/state.ts"
import type { Waiting } from "../core/waiting.ts"
import type { Part } from "../core/wire.ts"
import { addToDraft, isEmpty, readDraft } from "../drafts.ts"
import { oneLine } from "../plain.ts"
import { give, loadQueue, watch, world } from "../store.ts"
import { words } from "../words.ts"

interface Entry extends Waiting {
  text: string
  files: number
}

// The content of a waiting prompt: the stored message, or the prompt as it was sent from here.
function describe(session: string, waiting: Waiting): Entry {
  watch(`message ${waiting.id}`)
  const stored = world.windows.get(session)?.entries.findLast((entry) => entry.info.id === waiting.id)
  const parts: Part[] = stored?.parts.map(({ part }) => part) ?? []
  for (const part of parts) watch(`part ${part.id}`)
  const texts = parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text ?? "")
  const own = world.prompts.get(waiting.id)
  return {
    ...waiting,
    text: texts.length > 0 ? texts.join("\n") : (own?.text ?? ""),
    files: parts.filter((part) => part.type === "file").length || (own?.files?.length ?? 0),
  }
}

export function Queue(props: { id: string }) {
  const entries = createMemo(() => {
    watch(`queue ${props.id}`)
    watch(`status ${props.id}`)
    watch(`messages ${props.id}`)
    if (isStarting(world, props.id)) watch("now")
    return new Map(waitingBehind(world, props.id).map((it) => [it.id, describe(props.id, it)]))
  })
  const ids = createMemo(() => [...entries().keys()], [], {
    equals: (before, now) => before.length === now.length && before.every((id, at) => id === now[at]),
  })
  const [error, setError] = createSignal("")
  createEffect(() => ids().length === 0 && setError(""))
  // The server decides: a prompt that has started meanwhile is no longer in the queue.
  const change = async (id: string, route: "requeue" | "withdraw", body?: Body<"requeue">) => {
    setError("")
    try {
      const { data } = await call(route, { in: { sessionID: props.id, messageID: id }, body })
      return data
    } catch (failure) {
      const isGone = failure instanceof Failure && (failure.status === 409 || failure.status === 404)
      setError(isGone ? words.hasStarted : failure instanceof Error ? failure.message : String(failure))
      void loadQueue(props.id).catch(() => {})
      return undefined
    }
  }
  const withdraw = async (id: string) => {
    const text = entries().get(id)?.text ?? ""
    const gone = await change(id, "withdraw")
    if (!gone) return
    give({ kind: "frame", event: { type: "prompt.ended", properties: { sessionID: props.id, messageID: id, reason: "withdrawn" } } })
    const draft = await readDraft(props.id)
    if (!draft || isEmpty(draft)) await addToDraft(props.id, text, files(gone.parts))
  }
  return (
    <Show when={ids().length > 0 || error()}>
      <section class="queue" aria-label={words.waiting}>
        <Show when={ids().length > 0}>
          <h3>{words.waitingCount(ids().length)}</h3>
          <ol>
            <For each={ids()}>
              {(id, at) => (
                <Item
                  entry={entries().get(id)!}
                  isFirst={at() === 0}
                  isLast={at() === ids().length - 1}
                  onChange={(body) => change(id, "requeue", body)}
                  onMove={(by) => void change(id, "requeue", { position: at() + by })}
                  onWithdraw={() => void withdraw(id)}
                />
              )}
            </For>
          </ol>
        </Show>
        <Show when={error()}>
          <p class="error" role="alert">
            {error()}
          </p>
        </Show>
      </section>
    </Show>
  )
}

const files = (parts: Part[]) =>
  parts.flatMap((part) => (part.type === "file" && part.url ? [{ name: part.filename ?? "file", mime: part.mime ?? "", url: part.url }] : []))

function Item(props: {
  entry: Entry
  isFirst: boolean
  isLast: boolean
  onChange: (body: Body<"requeue">) => Promise<unknown>
  onMove: (by: number) => void
  onWithdraw: () => void
}) {
  const [text, setText] = createSignal<string>()
  const save = async () => {
    const value = text()?.trim()
    // A prompt with files is taken back into the composer to be edited; here it has only text.
    if (!value || (await props.onChange({ parts: [{ type: "text", text: value }] }))) setText(undefined)
  }
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.preventDefault()
      event.stopPropagation()
      setText(undefined)
    }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return
    event.preventDefault()
    void save()
  }
  return (
    <li data-delivery={props.entry.delivery}>
      <Show
        when={text() !== undefined}
        fallback={
          <>
            <span class="delivery">{props.entry.delivery === "steer" ? words.steers : words.queues}</span>
            <span class="text" title={props.entry.text}>
              {oneLine(props.entry.text) || words.onlyFiles(props.entry.files)}
            </span>
            <span class="actions">
              <Show when={props.entry.delivery === "queue"}>
                <button type="button" class="quiet" onClick={() => void props.onChange({ delivery: "steer" })}>
                  {words.steerNow}
                </button>
              </Show>
              <Show when={!props.isFirst}>
                <button type="button" class="quiet" aria-label={words.moveUp} title={words.moveUp} onClick={() => props.onMove(-1)}>
                  ↑
                </button>
              </Show>
              <Show when={!props.isLast}>
                <button type="button" class="quiet" aria-label={words.moveDown} title={words.moveDown} onClick={() => props.onMove(1)}>
                  ↓
                </button>
              </Show>
              <Show when={props.entry.files === 0}>
                <button type="button" class="quiet" onClick={() => setText(props.entry.text)}>
                  {words.edit}
                </button>
              </Show>
              <button type="button" class="quiet" onClick={() => props.onWithdraw()}>
                {words.withdraw}
              </button>
            </span>
          </>
        }
      >
        <textarea
          rows="2"
          aria-label={words.editPrompt}
          value={text()}
          ref={(box) => queueMicrotask(() => box.focus())}
          onInput={(event) => setText(event.target.value)}
          onKeyDown={keys}
        />
        <span class="actions">
          <button type="button" class="quiet" onClick={() => void save()}>
            {words.save}
          </button>
          <button type="button" class="quiet" onClick={() => setText(undefined)}>
            {words.cancel}
          </button>
        </span>
      </Show>
    </li>
  )
}
