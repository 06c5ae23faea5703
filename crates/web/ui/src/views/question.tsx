// A question of an agent: one at a time, with options and own words.

import { For, Show, createEffect, createSignal, onCleanup, onMount } from "solid-js"
import type { QuestionRequest } from "../core/wire.ts"
import type { Request } from "../core/world.ts"
import { oneLine } from "../plain.ts"
import { settings } from "../settings.ts"
import { words } from "../words.ts"
import { type Guard, isTyping, reply } from "./guard.ts"

// Options that a digit chooses.
const MAX_DIGIT = 9

export function QuestionCard(props: { request: Request; body: QuestionRequest; guard: Guard }) {
  const [at, setAt] = createSignal(0)
  const [answers, setAnswers] = createSignal<string[][]>([])
  const [own, setOwn] = createSignal("")
  const current = () => props.body.questions[at()]
  const picked = () => answers()[at()] ?? []
  createEffect(() => (at(), setOwn("")))
  const next = (values: string[]) => {
    if (!props.guard.isReady()) return
    const all = props.body.questions.map((_, index) => (index === at() ? values : (answers()[index] ?? [])))
    setAnswers(all)
    if (at() + 1 < props.body.questions.length) {
      setAt(at() + 1)
      props.guard.moved()
    } else props.guard.act(reply(props.request, "question", { answers: all }))
  }
  const toggle = (label: string) => {
    if (!props.guard.isReady()) return
    const values = picked().includes(label) ? picked().filter((it) => it !== label) : [...picked(), label]
    setAnswers(props.body.questions.map((_, index) => (index === at() ? values : (answers()[index] ?? []))))
  }
  const pick = (label: string) => (current()?.multiple ? toggle(label) : next([label]))
  const whole = () => (own().trim() === "" ? picked() : [...picked(), own().trim()])
  const keys = (event: KeyboardEvent) => {
    if (isTyping(event) || !settings().hasLetterKeys || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return
    const digit = /^[1-9]$/.test(event.key) ? Number(event.key) : 0
    const option = digit <= MAX_DIGIT ? current()?.options[digit - 1] : undefined
    if (option) pick(option.label)
  }
  onMount(() => document.addEventListener("keydown", keys))
  onCleanup(() => document.removeEventListener("keydown", keys))
  return (
    <>
      <div class="matter">
        <p>{current()?.question}</p>
        <ul class="options">
          <For each={current()?.options ?? []}>
            {(option, index) => (
              <li>
                <button
                  type="button"
                  disabled={!props.guard.isArmed()}
                  aria-pressed={current()?.multiple ? picked().includes(option.label) : undefined}
                  onClick={() => pick(option.label)}
                >
                  <strong>{oneLine(option.label)}</strong>
                  <span>{option.description}</span>
                  <Show when={index() < MAX_DIGIT}>
                    <kbd>{index() + 1}</kbd>
                  </Show>
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
          <button type="button" class="primary" disabled={!props.guard.isArmed()} onClick={() => next(whole())}>
            {words.answer}
          </button>
        </Show>
        <button type="button" disabled={!props.guard.isArmed()} onClick={() => props.guard.act(reply(props.request, "reject"))}>
          {words.dismiss}
        </button>
      </div>
    </>
  )
}
