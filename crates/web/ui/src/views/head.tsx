// The head of a session: the way up, title, state, totals, the button that stops a turn, and the menu.

import { Show } from "solid-js"
import { endReason } from "../core/fold.ts"
import { rowState } from "../core/state.ts"
import type { Session as Info } from "../core/wire.ts"
import { oneLine } from "../plain.ts"
import { watch, world } from "../store.ts"
import { duration, words } from "../words.ts"
import { Crumbs, FamilyTotals } from "./children.tsx"
import { SessionMenu } from "./menu.tsx"
import { PanelLinks } from "./panel.tsx"
import type { Stopper } from "./stop.ts"
import { Totals } from "./totals.tsx"

export function Head(props: { id: string; info?: Info; stopper: Stopper }) {
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
        <h2 title={props.info?.title}>{oneLine(props.info?.title ?? props.id)}</h2>
        <p>
          <span class="state" data-state={state()}>
            {label()}
          </span>
          <span title={props.info?.directory}>{oneLine(props.info?.directory.split("/").at(-1) ?? "")}</span>
          <Show when={props.info?.model}>{(model) => <span>{model().id}</span>}</Show>
          <FamilyTotals id={props.id} />
        </p>
      </div>
      <Totals id={props.id} info={props.info} />
      <PanelLinks id={props.id} />
      <Show when={props.stopper.isBusy()}>
        <button type="button" class="stop" disabled={props.stopper.isStopping()} onClick={() => props.stopper.stop()}>
          {props.stopper.isStopping() ? words.stopping : words.stop}
        </button>
      </Show>
      <SessionMenu id={props.id} info={props.info} />
    </header>
  )
}
