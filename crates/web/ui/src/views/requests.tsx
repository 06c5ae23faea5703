// Requests of a session and its children, one at a time, above the composer, and the ends of those that others answered.

import { For, Match, Show, Switch, createMemo, createSignal } from "solid-js"
import { type Ending, sameKind, shownEndings } from "../core/requests.ts"
import { family, requestsOf, serverNow } from "../core/state.ts"
import type { Permission, QuestionRequest } from "../core/wire.ts"
import type { Request } from "../core/world.ts"
import { oneLine } from "../plain.ts"
import { give, watch, world } from "../store.ts"
import { duration, words } from "../words.ts"
import { createGuard } from "./guard.ts"
import { PermissionCard } from "./permission.tsx"
import { QuestionCard } from "./question.tsx"

export function Requests(props: { id: string }) {
  const open = createMemo(() => {
    watch("requests")
    watch("list")
    return requestsOf(world, props.id)
  })
  return (
    <>
      <Endings id={props.id} />
      <Show when={open()[0]} keyed>
        {(request) => <Card request={request} all={open()} root={props.id} />}
      </Show>
    </>
  )
}

function Card(props: { request: Request; all: Request[]; root: string }) {
  let card!: HTMLElement
  const [error, setError] = createSignal("")
  const guard = createGuard(() => card, setError)
  const child = () => {
    const id = props.request.sessionID
    watch(`session ${id}`)
    const info = world.sessions.get(id)?.info
    return id === props.root ? undefined : [info?.agent, info?.title ?? words.subagent].filter(Boolean).join(": ")
  }
  return (
    <section ref={card} class="request" role="group" aria-label={words[props.request.kind]} data-armed={guard.isReady()}>
      <header>
        <strong>{words[props.request.kind]}</strong>
        <Show when={child()}>{(title) => <span> {oneLine(title())}</span>}</Show>
        <span class="count">
          <Show when={props.request.body.deadline}>{(at) => <Deadline at={at()} />}</Show>
          <Show when={props.all.length > 1}>{words.of(1, props.all.length)}</Show>
        </span>
      </header>
      <Switch>
        <Match when={props.request.kind === "permission" && props.request.body}>
          {(body) => (
            <PermissionCard
              request={props.request}
              body={body() as Permission}
              alike={sameKind(props.all, props.request)}
              root={props.root}
              guard={guard}
            />
          )}
        </Match>
        <Match when={props.request.kind === "question" && props.request.body}>
          {(body) => <QuestionCard request={props.request} body={body() as QuestionRequest} guard={guard} />}
        </Match>
      </Switch>
      <Show when={error()}>
        <p class="error" role="alert">
          {error()}
        </p>
      </Show>
    </section>
  )
}

function Deadline(props: { at: number }) {
  const left = () => (watch("now"), Math.max(0, props.at - serverNow(world)))
  return <span class="deadline">{words.expires(duration(left()))} </span>
}

function Endings(props: { id: string }) {
  const shown = createMemo(() => {
    watch("requests")
    watch("now")
    return shownEndings(world, family(world, props.id))
  }, [], { equals: (before, now) => before.length === now.length && before.every((it, at) => it === now[at]) })
  return (
    <div class="endings" role="status">
      <For each={shown()}>{(ending) => <EndingLine ending={ending} />}</For>
    </div>
  )
}

function EndingLine(props: { ending: Ending }) {
  const subject = () => {
    const { request } = props.ending
    if (request.kind === "question") return request.body.questions[0]?.question ?? ""
    const { permission, patterns, metadata } = request.body
    return `${permission} ${typeof metadata?.command === "string" ? metadata.command : (patterns[0] ?? "")}`
  }
  return (
    <p class="ending" data-unanswered={props.ending.isUnanswered === true}>
      <strong>{words.ending(props.ending)}</strong> <span class="name">{oneLine(subject())}</span>
      <button
        type="button"
        class="quiet"
        aria-label={words.closeNote}
        onClick={() => give({ kind: "ending", request: props.ending.request.id })}
      >
        ×
      </button>
    </p>
  )
}
