// Requests of a session and its children, one at a time, above the composer.

import { For, Match, Show, Switch, createEffect, createMemo, createSignal, onCleanup, onMount } from "solid-js"
import type { Body } from "../api.ts"
import { requestsOf } from "../core/state.ts"
import type { Permission, QuestionRequest } from "../core/wire.ts"
import type { Request } from "../core/world.ts"
import { isKey } from "../keys.ts"
import { oneLine, visible } from "../plain.ts"
import { type Answer, answer, watch, world } from "../store.ts"
import { words } from "../words.ts"
import { Diff } from "./tool.tsx"

// A card that has just appeared ignores clicks and keys that were meant for something else.
const GUARD_MS = 400

export function Requests(props: { id: string }) {
  const open = createMemo(() => {
    watch("requests")
    watch("list")
    return requestsOf(world, props.id)
  })
  return (
    <Show when={open()[0]} keyed>
      {(request) => <Card request={request} count={open().length} root={props.id} />}
    </Show>
  )
}

function Card(props: { request: Request; count: number; root: string }) {
  const [isArmed, setArmed] = createSignal(false)
  const [error, setError] = createSignal("")
  const timer = setTimeout(() => setArmed(true), GUARD_MS)
  onCleanup(() => clearTimeout(timer))
  const act: Act = (route, body) => {
    if (!isArmed()) return
    setArmed(false)
    answer(props.request.id, route, body).catch((failure) => {
      setError(failure instanceof Error ? failure.message : String(failure))
      setArmed(true)
    })
  }
  const child = () => {
    const id = props.request.sessionID
    watch(`session ${id}`)
    return id === props.root ? undefined : (world.sessions.get(id)?.info.title ?? words.subagent)
  }
  return (
    <section class="request" role="group" aria-label={words[props.request.kind]} data-armed={isArmed()}>
      <header>
        <strong>{words[props.request.kind]}</strong>
        <Show when={child()}>{(title) => <span> {oneLine(title())}</span>}</Show>
        <Show when={props.count > 1}>
          <span class="count">{words.of(1, props.count)}</span>
        </Show>
      </header>
      <Switch>
        <Match when={props.request.kind === "permission" && props.request.body}>
          {(body) => <PermissionCard body={body() as Permission} act={act} isArmed={isArmed()} />}
        </Match>
        <Match when={props.request.kind === "question" && props.request.body}>
          {(body) => <QuestionCard body={body() as QuestionRequest} act={act} isArmed={isArmed()} />}
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

type Act = (route: Answer, body?: Body<Answer>) => void

function PermissionCard(props: { body: Permission; act: Act; isArmed: boolean }) {
  const [isSure, setSure] = createSignal(false)
  const metadata = () => props.body.metadata ?? {}
  const command = () => (typeof metadata().command === "string" ? (metadata().command as string) : undefined)
  const patch = () => (typeof metadata().diff === "string" ? (metadata().diff as string) : undefined)
  const reply = (value: "once" | "always" | "reject") => props.act("permission", { reply: value })
  const keys = (event: KeyboardEvent) => {
    if (event.repeat) return
    if (isKey(event, "once")) reply("once")
    if (isKey(event, "reject")) reply("reject")
    if (isKey(event, "always") && props.body.always.length > 0) setSure(true)
  }
  onMount(() => document.addEventListener("keydown", keys))
  onCleanup(() => document.removeEventListener("keydown", keys))
  return (
    <>
      <div class="matter">
        <p>
          <code>{oneLine(props.body.permission)}</code>
        </p>
        <Show when={command()} fallback={<For each={props.body.patterns}>{(it) => <pre class="command">{visible(it)}</pre>}</For>}>
          {(it) => <pre class="command">{visible(it()).replaceAll("␊", "\n")}</pre>}
        </Show>
        <Show when={patch()}>{(it) => <Diff patch={it()} />}</Show>
      </div>
      <Show
        when={isSure()}
        fallback={
          <div class="buttons">
            <button type="button" class="primary" disabled={!props.isArmed} onClick={() => reply("once")}>
              {words.once} <kbd>y</kbd>
            </button>
            <Show when={props.body.always.length > 0}>
              <button type="button" disabled={!props.isArmed} onClick={() => setSure(true)}>
                {words.always} <kbd>a</kbd>
              </button>
            </Show>
            <button type="button" disabled={!props.isArmed} onClick={() => reply("reject")}>
              {words.reject} <kbd>n</kbd>
            </button>
          </div>
        }
      >
        <div class="sure">
          <p>{words.alwaysFor}</p>
          <For each={props.body.always}>{(it) => <pre class="command">{visible(it)}</pre>}</For>
          <div class="buttons">
            <button type="button" class="primary" disabled={!props.isArmed} onClick={() => reply("always")}>
              {words.alwaysSure}
            </button>
            <button type="button" onClick={() => setSure(false)}>
              {words.cancel}
            </button>
          </div>
        </div>
      </Show>
    </>
  )
}

function QuestionCard(props: { body: QuestionRequest; act: Act; isArmed: boolean }) {
  const [at, setAt] = createSignal(0)
  const [answers, setAnswers] = createSignal<string[][]>([])
  const [own, setOwn] = createSignal("")
  const current = () => props.body.questions[at()]
  const picked = () => answers()[at()] ?? []
  createEffect(() => (at(), setOwn("")))
  const next = (values: string[]) => {
    const all = props.body.questions.map((_, index) => (index === at() ? values : (answers()[index] ?? [])))
    setAnswers(all)
    if (at() + 1 < props.body.questions.length) setAt(at() + 1)
    else props.act("question", { answers: all })
  }
  const toggle = (label: string) => {
    const values = picked().includes(label) ? picked().filter((it) => it !== label) : [...picked(), label]
    setAnswers(props.body.questions.map((_, index) => (index === at() ? values : (answers()[index] ?? []))))
  }
  const whole = () => (own().trim() === "" ? picked() : [...picked(), own().trim()])
  return (
    <>
      <div class="matter">
        <p>{current()?.question}</p>
        <ul class="options">
          <For each={current()?.options ?? []}>
            {(option) => (
              <li>
                <button
                  type="button"
                  disabled={!props.isArmed}
                  aria-pressed={current()?.multiple ? picked().includes(option.label) : undefined}
                  onClick={() => (current()?.multiple ? toggle(option.label) : next([option.label]))}
                >
                  <strong>{oneLine(option.label)}</strong>
                  <span>{option.description}</span>
                </button>
              </li>
            )}
          </For>
        </ul>
        <Show when={current()?.custom !== false}>
          <input placeholder={words.own} aria-label={words.own} value={own()} onInput={(event) => setOwn(event.target.value)} />
        </Show>
      </div>
      <div class="buttons">
        <Show when={whole().length > 0}>
          <button type="button" class="primary" disabled={!props.isArmed} onClick={() => next(whole())}>
            {words.answer}
          </button>
        </Show>
        <button type="button" disabled={!props.isArmed} onClick={() => props.act("reject")}>
          {words.dismiss}
        </button>
      </div>
    </>
  )
}
