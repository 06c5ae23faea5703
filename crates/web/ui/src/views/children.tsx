// Subagents: their cards in the transcript, the way up to the root, neighbours, and totals of the family.

import { For, Show, createMemo } from "solid-js"
import { ancestors, siblings, summary, totals } from "../core/family.ts"
import { endReason } from "../core/fold.ts"
import { family } from "../core/state.ts"
import { oneLine } from "../plain.ts"
import { sessionLink } from "../route.ts"
import { watch, world } from "../store.ts"
import { count, duration, words } from "../words.ts"

// Depends on everything that a card of this session shows.
function watchFamily(id: string) {
  watch("list")
  watch("requests")
  for (const member of family(world, id)) {
    watch(`session ${member}`)
    watch(`status ${member}`)
  }
}

const titleOf = (id: string) => {
  watch(`session ${id}`)
  return oneLine(world.sessions.get(id)?.info.title ?? words.subagent)
}

// `status` is that of the tool call that has started the subagent: it tells the end of one that ended unobserved.
export function ChildCard(props: { id: string; status?: string }) {
  const now = createMemo(() => {
    watchFamily(props.id)
    watch(`todos ${props.id}`)
    watch(`messages ${props.id}`)
    return summary(world, props.id)
  })
  const state = () => {
    watch("now")
    const since = world.status.get(props.id)?.since
    if (now().state === "working" && since) return `${words.state("working")} ${duration(world.now - since)}`
    const ended = props.status === "completed" || props.status === "error" ? props.status : null
    const reason = endReason(world, props.id) ?? ended
    return now().status.type === "idle" && reason && now().state !== "needs" ? words.end(reason) : words.state(now().state)
  }
  const facts = () => {
    const { todos, totals } = now()
    return [
      world.sessions.get(props.id)?.info.agent ?? "",
      todos.count > 0 ? words.todosDone(todos.done, todos.count) : "",
      totals.input + totals.output > 0 ? words.steps(count(totals.input), count(totals.output)) : "",
      now().requests > 0 ? words.requests(now().requests) : "",
    ]
      .filter(Boolean)
      .join(" · ")
  }
  const tool = () => {
    const part = now().tool
    return part ? `${part.tool ?? ""} ${part.state?.title ?? ""}`.trim() : ""
  }
  return (
    <a class="child" data-state={now().state} href={sessionLink(props.id)}>
      <span class="mark" aria-hidden="true" />
      <span class="title">{titleOf(props.id)}</span>
      <span class="detail">{state()}</span>
      <span class="about">
        {facts()}
        <Show when={tool()}>{(text) => <span class="current"> · {oneLine(text())}</span>}</Show>
      </span>
    </a>
  )
}

// The way from the root to this session.
export function Crumbs(props: { id: string }) {
  const above = createMemo(() => (watch("list"), watch(`session ${props.id}`), ancestors(world, props.id)))
  return (
    <Show when={above().length > 0}>
      <nav class="crumbs" aria-label={words.parents}>
        <For each={above()}>
          {(id) => (
            <>
              <a href={sessionLink(id)}>{titleOf(id)}</a>
              <span aria-hidden="true">›</span>
            </>
          )}
        </For>
        <Siblings id={props.id} />
      </nav>
    </Show>
  )
}

function Siblings(props: { id: string }) {
  const around = createMemo(() => (watch("list"), siblings(world, props.id)))
  return (
    <Show when={around().count > 1}>
      <span class="siblings">
        <Neighbour id={around().before} label={words.previousChild} sign="‹" />
        {words.of(around().index, around().count)}
        <Neighbour id={around().after} label={words.nextChild} sign="›" />
      </span>
    </Show>
  )
}

function Neighbour(props: { id?: string; label: string; sign: string }) {
  return (
    <Show when={props.id} fallback={<span aria-hidden="true">{props.sign}</span>}>
      {(id) => (
        <a href={sessionLink(id())} aria-label={props.label} title={props.label}>
          {props.sign}
        </a>
      )}
    </Show>
  )
}

// Totals of a session that has subagents.
export function FamilyTotals(props: { id: string }) {
  const sum = createMemo(() => (watchFamily(props.id), totals(world, props.id)))
  return (
    <Show when={sum().sessions > 1}>
      <span class="family" title={words.familyHint}>
        {words.family(sum().sessions - 1, sum().working)}
        <Show when={sum().input + sum().output > 0}> · {words.steps(count(sum().input), count(sum().output))}</Show>
        <Show when={sum().cost > 0}> · {words.cost(sum().cost)}</Show>
      </span>
    </Show>
  )
}
