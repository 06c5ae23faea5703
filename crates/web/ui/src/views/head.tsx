// The head of a session: the way up, title, state, totals, the button that stops a turn, and the menu.

import { Show, createSignal, onMount } from "solid-js"
import { call } from "../api.ts"
import { endReason } from "../core/fold.ts"
import { rowState } from "../core/state.ts"
import type { Session as Info } from "../core/wire.ts"
import { oneLine } from "../plain.ts"
import { give, watch, world } from "../store.ts"
import { duration, words } from "../words.ts"
import { Crumbs, FamilyTotals } from "./children.tsx"
import { SessionMenu } from "./menu.tsx"
import { PanelLinks } from "./panel.tsx"
import type { Stopper } from "./stop.ts"
import { Totals } from "./totals.tsx"

export function Head(props: { id: string; info?: Info; stopper: Stopper }) {
  const [isRenaming, setRenaming] = createSignal(false)
  const state = () => (watch("list"), watch(`status ${props.id}`), rowState(world, props.id))
  const label = () => {
    watch("now")
    const row = state()
    const since = world.status.get(props.id)?.since
    if (row === "working" && since) return `${words.state(row)} ${duration(world.now - since)}`
    return props.stopper.isBusy() || row === "needs" ? words.state(row) : words.end(endReason(world, props.id))
  }
  return (
    <header class="head">
      <a class="back" href="#/" aria-label={words.back}>
        ‹
      </a>
      <div class="head-title">
        <Crumbs id={props.id} />
        <Show when={isRenaming()} fallback={<h2 title={props.info?.title}>{oneLine(props.info?.title ?? props.id)}</h2>}>
          <TitleEdit id={props.id} title={props.info?.title ?? ""} onDone={() => setRenaming(false)} />
        </Show>
        <p>
          <span title={props.info?.directory}>{oneLine(props.info?.directory.split("/").at(-1) ?? "")}</span>
          <Show when={props.info?.model}>{(model) => <span>{model().id}</span>}</Show>
          <FamilyTotals id={props.id} />
          {/* Last, because its text changes every second. */}
          <span class="state" data-state={state()}>
            {label()}
          </span>
        </p>
      </div>
      {/* Beside the title, which gives way, so that the links keep their places. */}
      <Show when={props.stopper.isBusy()}>
        <button type="button" class="stop" disabled={props.stopper.isStopping()} onClick={() => props.stopper.stop()}>
          {props.stopper.isStopping() ? words.stopping : words.stop}
        </button>
      </Show>
      <Totals id={props.id} info={props.info} />
      <PanelLinks id={props.id} />
      <SessionMenu id={props.id} info={props.info} onRename={() => setRenaming(true)} />
    </header>
  )
}

function TitleEdit(props: { id: string; title: string; onDone: () => void }) {
  let box!: HTMLInputElement
  onMount(() => {
    box.focus()
    box.select()
  })
  const save = async () => {
    const title = box.value.trim()
    if (title !== "" && title !== props.title) {
      const began = world.tick
      const saved = call("update", { in: { sessionID: props.id }, body: { title } })
      await saved.then(
        ({ data }) => give({ kind: "sessions", began, sessions: [data] }),
        () => {},
      )
    }
    props.onDone()
  }
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.isComposing) void save()
    if (event.key !== "Escape") return
    // Not meant for the turn.
    event.preventDefault()
    props.onDone()
  }
  return <input ref={box} class="title-edit" aria-label={words.title} value={props.title} onKeyDown={keys} onBlur={() => props.onDone()} />
}
