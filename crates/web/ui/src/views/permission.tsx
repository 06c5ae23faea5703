// A permission: the exact command, patch or address, and the ways to answer it.

import { For, type JSX, Match, Show, Switch, createEffect, createSignal, on, onCleanup, onMount } from "solid-js"
import { allowAll, rejectBecause } from "../answering.ts"
import type { Permission } from "../core/wire.ts"
import type { Request } from "../core/world.ts"
import { isKey } from "../keys.ts"
import { oneLine, visible } from "../plain.ts"
import { words } from "../words.ts"
import { type Guard, reply } from "./guard.ts"
import { Diff } from "./tool.tsx"

const commandOf = ({ metadata }: Permission) => (typeof metadata?.command === "string" ? metadata.command : undefined)

// The steps of an answer: the choice, or a look at everything that it allows, or the reason of a rejection.
type Step = "choose" | "always" | "all" | "why"

export function PermissionCard(props: { request: Request; body: Permission; alike: Request[]; root: string; guard: Guard }) {
  const [step, setStep] = createSignal<Step>("choose")
  // Only permissions that the user has seen are allowed together.
  const [listed, setListed] = createSignal<Request[]>([])
  const answer = (value: "once" | "always" | "reject") => props.guard.act(reply(props.request, "permission", { reply: value }))
  createEffect(on(step, () => props.guard.moved(), { defer: true }))
  const keys = (event: KeyboardEvent) => {
    if (event.repeat) return
    if (isKey(event, "once") && step() === "choose") answer("once")
    if (isKey(event, "reject")) answer("reject")
    if (isKey(event, "always") && props.body.always.length > 0) setStep("always")
  }
  onMount(() => document.addEventListener("keydown", keys))
  onCleanup(() => document.removeEventListener("keydown", keys))
  const patch = () => (typeof props.body.metadata?.diff === "string" ? props.body.metadata.diff : undefined)
  const cancel = () => setStep("choose")
  return (
    <>
      <div class="matter">
        <p>
          <code>{oneLine(props.body.permission)}</code>
        </p>
        <Subject body={props.body} />
        <Show when={patch()}>{(it) => <Diff patch={it()} />}</Show>
      </div>
      <Switch>
        <Match when={step() === "choose"}>
          <div class="buttons">
            <button type="button" class="primary" disabled={!props.guard.isArmed()} onClick={() => answer("once")}>
              {words.once} <kbd>y</kbd>
            </button>
            <Show when={props.alike.length > 1}>
              <button
                type="button"
                disabled={!props.guard.isArmed()}
                onClick={() => {
                  setListed(props.alike)
                  setStep("all")
                }}
              >
                {words.onceForAll(props.alike.length)}
              </button>
            </Show>
            <Show when={props.body.always.length > 0}>
              <button type="button" disabled={!props.guard.isArmed()} onClick={() => setStep("always")}>
                {words.always} <kbd>a</kbd>
              </button>
            </Show>
            <button type="button" disabled={!props.guard.isArmed()} onClick={() => answer("reject")}>
              {words.reject} <kbd>n</kbd>
            </button>
            <button type="button" disabled={!props.guard.isArmed()} onClick={() => setStep("why")}>
              {words.rejectBecause}
            </button>
          </div>
        </Match>
        <Match when={step() === "always"}>
          <Sure text={words.alwaysFor} action={words.alwaysSure} guard={props.guard} onSure={() => answer("always")} onCancel={cancel}>
            <For each={props.body.always}>{(it) => <pre class="command">{visible(it)}</pre>}</For>
          </Sure>
        </Match>
        <Match when={step() === "all"}>
          <Sure
            text={words.onceForThese}
            action={words.onceForAll(listed().length)}
            guard={props.guard}
            onSure={() => props.guard.act(() => allowAll(listed()))}
            onCancel={cancel}
          >
            <For each={listed()}>{(it) => <Subject body={it.body as Permission} />}</For>
          </Sure>
        </Match>
        <Match when={step() === "why"}>
          <Why guard={props.guard} onSend={(text) => props.guard.act(() => rejectBecause(props.request, props.root, text))} onCancel={cancel} />
        </Match>
      </Switch>
    </>
  )
}

// The exact command, or the patterns of any other permission.
function Subject(props: { body: Permission }) {
  return (
    <Show when={commandOf(props.body)} fallback={<For each={props.body.patterns}>{(it) => <pre class="command">{visible(it)}</pre>}</For>}>
      {(it) => <pre class="command">{visible(it()).replaceAll("␊", "\n")}</pre>}
    </Show>
  )
}

function Sure(props: { text: string; action: string; guard: Guard; onSure: () => void; onCancel: () => void; children: JSX.Element }) {
  return (
    <>
      <div class="sure">
        <p>{props.text}</p>
        {props.children}
      </div>
      <div class="buttons">
        <button type="button" class="primary" disabled={!props.guard.isArmed()} onClick={props.onSure}>
          {props.action}
        </button>
        <button type="button" onClick={props.onCancel}>
          {words.cancel}
        </button>
      </div>
    </>
  )
}

function Why(props: { guard: Guard; onSend: (text: string) => void; onCancel: () => void }) {
  const [text, setText] = createSignal("")
  let box!: HTMLInputElement
  onMount(() => box.focus())
  const send = () => text().trim() !== "" && props.onSend(text().trim())
  const keys = (event: KeyboardEvent) => {
    if (event.isComposing) return
    if (event.key === "Enter") send()
    else if (event.key === "Escape") props.onCancel()
    else return
    event.preventDefault()
  }
  return (
    <>
      <input ref={box} aria-label={words.why} placeholder={words.why} value={text()} onInput={(event) => setText(event.target.value)} onKeyDown={keys} />
      <div class="buttons">
        <button type="button" class="primary" disabled={!props.guard.isArmed() || text().trim() === ""} onClick={send}>
          {words.reject}
        </button>
        <button type="button" onClick={props.onCancel}>
          {words.cancel}
        </button>
      </div>
    </>
  )
}
