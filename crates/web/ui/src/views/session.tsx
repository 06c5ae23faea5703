// One session: its head, the transcript, open requests and the composer.

import { For, Show, createEffect, createMemo, createSignal, onCleanup, onMount } from "solid-js"
import { call } from "../api.ts"
import { endReason } from "../core/fold.ts"
import { isBusy, requestsOf, rowState, statusOf } from "../core/state.ts"
import type { Session as Info } from "../core/wire.ts"
import { oneLine } from "../plain.ts"
import { sessionLink } from "../route.ts"
import { discard, loadOlder, sendAgain, watch, world } from "../store.ts"
import { count, duration, words } from "../words.ts"
import { Composer } from "./composer.tsx"
import { MessageView } from "./message.tsx"
import { Requests } from "./requests.tsx"

export function Session(props: { id: string }) {
  const info = createMemo<Info | undefined>(() => (watch(`session ${props.id}`), world.sessions.get(props.id)?.info))
  const isGone = () => (watch(`session ${props.id}`), world.gone.has(props.id))
  return (
    <Show when={!isGone()} fallback={<p class="empty">{words.notFound}</p>}>
      <section class="session" aria-label={oneLine(info()?.title ?? "")}>
        <Head id={props.id} info={info()} />
        <Transcript id={props.id} />
        <div class="dock">
          <Retry id={props.id} />
          <Todos id={props.id} />
          <Requests id={props.id} />
          <Composer id={props.id} info={info()} />
        </div>
      </section>
    </Show>
  )
}

// Between two presses of Escape that stop a turn.
const TWICE_MS = 1_000

function Head(props: { id: string; info?: Info }) {
  const [isStopping, setStopping] = createSignal(false)
  const busy = createMemo(() => (watch(`status ${props.id}`), isBusy(world, props.id)))
  createEffect(() => busy() || setStopping(false))
  const stop = () => {
    setStopping(true)
    call("abort", { in: { sessionID: props.id } }).catch(() => setStopping(false))
  }
  const state = () => {
    watch("list")
    watch("now")
    watch(`status ${props.id}`)
    const entry = world.status.get(props.id)
    const row = rowState(world, props.id)
    if (row === "working" && entry?.since) return `${words.state(row)} ${duration(world.now - entry.since)}`
    return busy() || row === "needs" ? words.state(row) : words.end(endReason(world, props.id))
  }
  let pressed = 0
  const keys = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !busy()) return
    if (event.timeStamp - pressed < TWICE_MS) stop()
    pressed = event.timeStamp
  }
  onMount(() => document.addEventListener("keydown", keys))
  onCleanup(() => document.removeEventListener("keydown", keys))
  const tokens = () => (watch(`session ${props.id}`), world.tokens.get(props.id))
  return (
    <header class="head">
      <a class="back" href="#/" aria-label={words.back}>
        ‹
      </a>
      <div class="head-title">
        <Show when={props.info?.parentID}>
          {(parent) => (
            <a class="crumb" href={sessionLink(parent())}>
              {oneLine(world.sessions.get(parent())?.info.title ?? words.back)} ›
            </a>
          )}
        </Show>
        <h2>{oneLine(props.info?.title ?? props.id)}</h2>
        <p>
          <span class="state" data-state={(watch(`status ${props.id}`), watch("list"), rowState(world, props.id))}>
            {state()}
          </span>
          <span title={props.info?.directory}>{oneLine(props.info?.directory.split("/").at(-1) ?? "")}</span>
          <Show when={props.info?.model}>{(model) => <span>{model().id}</span>}</Show>
          <Show when={tokens()}>
            {(it) => <span>{words.steps(count(it().input + it().cache.read), count(it().output))}</span>}
          </Show>
        </p>
      </div>
      <Show when={busy()}>
        <button type="button" class="stop" disabled={isStopping()} onClick={stop}>
          {isStopping() ? words.stopping : words.stop}
        </button>
      </Show>
    </header>
  )
}

// Pixels from the end within which the view follows new text.
const NEAR = 48

function Transcript(props: { id: string }) {
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

function Retry(props: { id: string }) {
  const retry = () => {
    watch(`status ${props.id}`)
    watch("now")
    const status = statusOf(world, props.id)
    return status.type === "retry" ? { ...status, seconds: Math.max(0, Math.ceil((status.next - world.now) / 1_000)) } : null
  }
  return (
    <Show when={retry()}>
      {(it) => (
        <div class="retry">
          <strong>{words.attempt(it().attempt, it().seconds)}</strong> {it().message}
        </div>
      )}
    </Show>
  )
}

function Todos(props: { id: string }) {
  const todos = () => (watch(`todos ${props.id}`), world.todos.get(props.id) ?? [])
  const open = () => todos().filter((todo) => todo.status !== "completed" && todo.status !== "cancelled")
  const isShown = () => {
    watch(`status ${props.id}`)
    return todos().length > 0 && (isBusy(world, props.id) || requestsOf(world, props.id).length > 0)
  }
  return (
    <Show when={isShown()}>
      <details class="todos">
        <summary>
          {words.todos} · {words.left(open().length)}
        </summary>
        <ul>
          <For each={todos()}>{(todo) => <li data-status={todo.status}>{oneLine(todo.content)}</li>}</For>
        </ul>
      </details>
    </Show>
  )
}
