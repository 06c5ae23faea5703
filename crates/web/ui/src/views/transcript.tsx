// The messages of a session. The view follows new text at the end, and stays where the user reads.

import { For, Show, createMemo, createSignal, onCleanup, onMount } from "solid-js"
import { endReason } from "../core/fold.ts"
import { isBusy } from "../core/state.ts"
import { discard, loadOlder, sendAgain, watch, world } from "../store.ts"
import { words } from "../words.ts"
import { MessageView } from "./message.tsx"

// Pixels from the end within which the view follows new text.
const NEAR = 48

export function Transcript(props: { id: string }) {
  const ids = createMemo(() => {
    watch(`messages ${props.id}`)
    return world.windows.get(props.id)?.entries.map((entry) => entry.info.id) ?? []
  })
  const window = () => (watch(`messages ${props.id}`), world.windows.get(props.id))
  const pending = createMemo(() => {
    watch(`prompts ${props.id}`)
    const shown = new Set(ids())
    return [...world.prompts.values()].filter((prompt) => prompt.sessionID === props.id && !shown.has(prompt.id) && prompt.text)
  })
  const ended = () => {
    watch(`status ${props.id}`)
    const reason = isBusy(world, props.id) ? null : endReason(world, props.id)
    return reason && reason !== "completed" ? reason : null
  }
  const [isFollowing, setFollowing] = createSignal(true)
  let box!: HTMLDivElement
  let content!: HTMLDivElement
  const toEnd = () => box.scrollTo({ top: box.scrollHeight })
  let last = 0
  const scrolled = () => {
    const isNear = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR
    // Only the user scrolls up; content that grows or shrinks does not.
    if (isNear) setFollowing(true)
    else if (box.scrollTop < last - 1) setFollowing(false)
    last = box.scrollTop
    if (box.scrollTop < 200) void older()
  }
  let isLoading = false
  const older = async () => {
    if (isLoading || !window()?.older) return
    isLoading = true
    const before = box.scrollHeight - box.scrollTop
    await loadOlder(props.id).catch(() => {})
    if (!isFollowing()) box.scrollTop = box.scrollHeight - before
    isLoading = false
  }
  onMount(() => {
    const observer = new ResizeObserver(() => isFollowing() && toEnd())
    observer.observe(content)
    observer.observe(box)
    onCleanup(() => observer.disconnect())
  })
  return (
    <div class="transcript" ref={box} onScroll={scrolled} tabindex="0">
      <div class="content" ref={content}>
        <Show when={window()?.older}>
          <button type="button" class="quiet older" onClick={() => void older()}>
            {words.earlier}
          </button>
        </Show>
        <Show when={window()?.stale && ids().length === 0}>
          <p class="empty">{words.loading}</p>
        </Show>
        <For each={ids()}>{(id) => <MessageView session={props.id} id={id} />}</For>
        <For each={pending()}>
          {(prompt) => (
            <article class="message user" data-fate={prompt.fate}>
              <p class="text">{prompt.text}</p>
              <p class="fate">
                {prompt.fate === "failed" ? `${words.failed}: ${prompt.error ?? ""}` : words.sending}
                <Show when={prompt.fate === "failed"}>
                  <button type="button" class="quiet" onClick={() => sendAgain(prompt.id)}>
                    {words.tryAgain}
                  </button>
                  <button type="button" class="quiet" onClick={() => discard(prompt.id)}>
                    {words.discard}
                  </button>
                </Show>
              </p>
            </article>
          )}
        </For>
        <Show when={ended()}>
          {(reason) => (
            <p class="end" data-reason={reason()}>
              {words.end(reason())}
              <Show when={world.errors.get(props.id)}>{(message) => <span> {message()}</span>}</Show>
            </p>
          )}
        </Show>
      </div>
      <Show when={!isFollowing()}>
        <button
          type="button"
          class="newest"
          onClick={() => {
            setFollowing(true)
            toEnd()
          }}
        >
          {words.newest}
        </button>
      </Show>
    </div>
  )
}
