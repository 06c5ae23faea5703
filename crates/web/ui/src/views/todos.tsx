// The todos of a session as a list with its progress.

import { For, Show, createEffect, createMemo } from "solid-js"
import { oneLine } from "../plain.ts"
import { readTodos, watch, world } from "../store.ts"
import { words } from "../words.ts"

export function TodoPanel(props: { id: string }) {
  createEffect(() => void readTodos(props.id))
  const todos = createMemo(() => (watch(`todos ${props.id}`), world.todos.get(props.id) ?? []))
  const done = () => todos().filter((todo) => todo.status === "completed").length
  return (
    <Show when={todos().length > 0} fallback={<p class="empty">{words.todoPanel.none}</p>}>
      <div class="todo-panel">
        <p class="todo-progress">
          <progress value={done()} max={todos().length} aria-label={words.todos} /> {words.of(done(), todos().length)}
        </p>
        <ul>
          <For each={todos()}>
            {(todo) => (
              <li data-status={todo.status}>
                <span class="todo-mark" aria-hidden="true" />
                <span>{oneLine(todo.content)}</span>
                <span class="todo-status">{words.todoPanel.status(todo.status)}</span>
              </li>
            )}
          </For>
        </ul>
      </div>
    </Show>
  )
}
