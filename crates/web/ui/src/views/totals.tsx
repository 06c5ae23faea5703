// The context ring in the head of a session, and the table of tokens and cost behind it.

import { For, Show, createMemo, createResource } from "solid-js"
import { type Total, contextIn, level, totals } from "../core/totals.ts"
import type { Session } from "../core/wire.ts"
import { contextLimit } from "../providers.ts"
import { watch, world } from "../store.ts"
import { count, money, percent, words } from "../words.ts"

const SCOPES = ["step", "turn", "session", "family", "project"] as const

export function Totals(props: { id: string; info?: Session }) {
  const all = createMemo(() => {
    watch(`messages ${props.id}`)
    watch(`session ${props.id}`)
    watch(`status ${props.id}`)
    return totals(world, props.id)
  })
  const [limit] = createResource(
    () => {
      const { directory, model } = props.info ?? {}
      return directory && model ? { directory, provider: model.providerID, model: model.id } : undefined
    },
    ({ directory, provider, model }) => contextLimit(directory, provider, model).catch(() => null),
  )
  const used = createMemo(() => (watch(`messages ${props.id}`), watch(`session ${props.id}`), watch(`status ${props.id}`), contextIn(world, props.id)))
  const share = () => {
    const [now, most] = [used(), limit.state === "ready" ? limit() : null]
    return now !== undefined && most ? now / most : undefined
  }
  const cost = () => all().session.cost
  return (
    <div class="totals">
      <button type="button" class="totals-button" popovertarget={`totals-${props.id}`} aria-label={words.totals.title}>
        <span class="ring" data-level={level(share() ?? 0)} style={{ "--share": `${Math.min(1, share() ?? 0) * 360}deg` }} aria-hidden="true" />
        <span class="totals-text">{share() === undefined ? words.totals.short : percent(share()!)}</span>
        <Show when={cost()}>{(it) => <span class="totals-text">{money(it())}</span>}</Show>
      </button>
      <div popover id={`totals-${props.id}`} class="totals-table">
        <h2>{words.totals.title}</h2>
        <Show when={used() !== undefined}>
          <p>{words.totals.context(count(used()!), limit.state === "ready" && limit() ? count(limit()!) : words.totals.none)}</p>
        </Show>
        <table>
          <thead>
            <tr>
              <th scope="col">{words.totals.scope}</th>
              <For each={Object.values(words.totals.columns)}>{(name) => <th scope="col">{name}</th>}</For>
            </tr>
          </thead>
          <tbody>
            <For each={SCOPES}>{(scope) => <Line name={words.totals.scopes[scope]} total={all()[scope]} />}</For>
          </tbody>
        </table>
        <p class="fate">{words.totals.note}</p>
      </div>
    </div>
  )
}

function Line(props: { name: string; total: Total }) {
  const told = (value: number | undefined) => (value === undefined ? words.totals.none : count(value))
  const cells = () => {
    const { tokens, cost } = props.total
    return [
      told(tokens?.input),
      told(tokens?.output),
      told(tokens?.reasoning),
      told(tokens && tokens.cache.read + tokens.cache.write),
      cost === undefined ? words.totals.none : money(cost),
    ]
  }
  return (
    <tr>
      <th scope="row">{props.name}</th>
      <For each={cells()}>{(cell) => <td>{cell}</td>}</For>
    </tr>
  )
}
