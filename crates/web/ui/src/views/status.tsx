// The state of a session above its composer: the wait before a retry or a continuation, a stop, and the todo list.

import { For, Show } from "solid-js"
import { call } from "../api.ts"
import { isBusy, requestsOf, serverNow, statusOf } from "../core/state.ts"
import type { RetryAction } from "../core/wire.ts"
import { linkTarget, oneLine } from "../plain.ts"
import { say } from "../sending.ts"
import { watch, world } from "../store.ts"
import { words } from "../words.ts"
import { Reverted } from "./reverted.tsx"
import type { Stopper } from "./stop.ts"

const seconds = (until: number) => Math.max(0, Math.ceil((until - serverNow(world)) / 1_000))

export function StatusBanners(props: { id: string; stopper: Stopper }) {
  return (
    <Show when={!props.stopper.isStopping()} fallback={<Banner kind="stopping" title={words.stopping} />}>
      <Show when={props.stopper.isAsked()}>
        <Banner kind="stopping" title={words.escapeAgain} text={words.losses(props.stopper.losses())} />
      </Show>
      <Show when={props.stopper.error()}>{(error) => <Banner kind="failed" title={words.stopFailed} text={error()} />}</Show>
      <Retry id={props.id} />
      <Countdown id={props.id} />
      <Reverted id={props.id} />
    </Show>
  )
}

function Banner(props: { kind: string; title: string; text?: string }) {
  return (
    <div class="banner" data-kind={props.kind} role="status">
      <p>
        <strong>{props.title}</strong>
        <Show when={props.text}> {props.text}</Show>
      </p>
    </div>
  )
}

function Retry(props: { id: string }) {
  const retry = () => {
    watch(`status ${props.id}`)
    const status = statusOf(world, props.id)
    return status.type === "retry" ? status : null
  }
  const left = () => (watch("now"), seconds(retry()?.next ?? 0))
  return (
    <Show when={retry()}>
      {(it) => (
        <div class="banner" data-kind="retry">
          <p>
            <strong>
              {words.attempt(it().attempt, it().limit)}
              <span class="countdown"> {left() > 0 ? words.inSeconds(left()) : words.tryingNow}</span>
            </strong>
            <span class="reason">{it().message}</span>
            <ActionLink action={it().action} />
          </p>
        </div>
      )}
    </Show>
  )
}

// A page at which the user can solve the problem, such as a provider's billing.
function ActionLink(props: { action?: RetryAction }) {
  const target = () => linkTarget(props.action?.url ?? props.action?.link ?? "")
  return (
    <Show when={target()}>
      {(url) => (
        <a href={url().href} target="_blank" rel="noopener noreferrer">
          {oneLine(props.action?.label ?? props.action?.title ?? url().hostname)}
        </a>
      )}
    </Show>
  )
}

function Countdown(props: { id: string }) {
  const countdown = () => (watch(`status ${props.id}`), world.countdowns.get(props.id))
  const left = () => (watch("now"), seconds(countdown()?.until ?? 0))
  const stop = () => void call("continuation", { in: { sessionID: props.id }, body: { action: "stop" } }).catch(() => {})
  // A prompt during the countdown takes the place of the continuation.
  const now = () => say(props.id, words.continuePrompt)
  return (
    <Show when={countdown()}>
      {(it) => (
        <div class="banner" data-kind="countdown">
          <p>
            <strong>
              {words.continues} <span class="countdown">{words.inSeconds(left())}</span>
            </strong>
            <span class="reason">{words.round(it().n, it().open)}</span>
          </p>
          <span class="buttons">
            <button type="button" onClick={now}>
              {words.now}
            </button>
            <button type="button" onClick={stop}>
              {words.stopContinuing}
            </button>
          </span>
        </div>
      )}
    </Show>
  )
}

export function Todos(props: { id: string }) {
  const todos = () => (watch(`todos ${props.id}`), world.todos.get(props.id) ?? [])
  const open = () => todos().filter((todo) => todo.status !== "completed" && todo.status !== "cancelled")
  const current = () => todos().find((todo) => todo.status === "in_progress")
  const isShown = () => {
    watch(`status ${props.id}`)
    return todos().length > 0 && (isBusy(world, props.id) || requestsOf(world, props.id).length > 0)
  }
  return (
    <Show when={isShown()}>
      <details class="todos">
        <summary>
          {words.todos} · {words.left(open().length)}
          <Show when={current()}>{(todo) => <span class="current"> · {oneLine(todo().content)}</span>}</Show>
        </summary>
        <ul>
          <For each={todos()}>{(todo) => <li data-status={todo.status}>{oneLine(todo.content)}</li>}</For>
        </ul>
      </details>
    </Show>
  )
}
