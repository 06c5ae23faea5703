// The state of a session above its composer: the wait before a retry, and the todo list.

import { For, Show } from "solid-js"
import { isBusy, requestsOf, statusOf } from "../core/state.ts"
import { oneLine } from "../plain.ts"
import { watch, world } from "../store.ts"
import { words } from "../words.ts"

export function Retry(props: { id: string }) {
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

export function Todos(props: { id: string }) {
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
