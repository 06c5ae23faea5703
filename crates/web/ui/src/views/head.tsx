// The head of a session: title, state, totals and the button that stops a turn.

import { Show, createEffect, createMemo, createSignal, onCleanup, onMount } from "solid-js"
import { call } from "../api.ts"
import { endReason } from "../core/fold.ts"
import { isBusy, rowState } from "../core/state.ts"
import type { Session as Info } from "../core/wire.ts"
import { oneLine } from "../plain.ts"
import { sessionLink } from "../route.ts"
import { watch, world } from "../store.ts"
import { duration, words } from "../words.ts"
import { PanelLinks } from "./panel.tsx"
import { Totals } from "./totals.tsx"

// Between two presses of Escape that stop a turn.
const TWICE_MS = 1_000

export function Head(props: { id: string; info?: Info }) {
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
        </p>
      </div>
      <Totals id={props.id} info={props.info} />
      <PanelLinks id={props.id} />
      <Show when={busy()}>
        <button type="button" class="stop" disabled={isStopping()} onClick={stop}>
          {isStopping() ? words.stopping : words.stop}
        </button>
      </Show>
    </header>
  )
}
