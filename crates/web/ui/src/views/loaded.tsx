// The states of something that is read from the server: loading, failed, empty, there.

import { type JSX, Match, type Resource, Show, Switch, createSignal, onCleanup } from "solid-js"
import { words } from "../words.ts"

// A fast answer shows no sign of waiting.
const QUIET_MS = 150
const SLOW_MS = 5_000

export function Loaded<T>(props: { of: Resource<T>; again: () => void; children: (value: () => T) => JSX.Element }) {
  return (
    <Switch>
      <Match when={props.of.state === "errored"}>
        <div class="empty" role="alert">
          <p>{props.of.error instanceof Error ? props.of.error.message : String(props.of.error)}</p>
          <button type="button" onClick={props.again}>
            {words.tryAgain}
          </button>
        </div>
      </Match>
      <Match when={props.of.latest !== undefined}>{props.children(() => props.of.latest as T)}</Match>
      <Match when={props.of.loading}>
        <Waiting again={props.again} />
      </Match>
    </Switch>
  )
}

function Waiting(props: { again: () => void }) {
  const [stage, setStage] = createSignal(0)
  const timers = [setTimeout(() => setStage(1), QUIET_MS), setTimeout(() => setStage(2), SLOW_MS)]
  onCleanup(() => timers.forEach(clearTimeout))
  return (
    <Show when={stage() > 0}>
      <div class="empty">
        <p>{words.loading}</p>
        <Show when={stage() > 1}>
          <button type="button" onClick={props.again}>
            {words.tryAgain}
          </button>
        </Show>
      </div>
    </Show>
  )
}
