// A new session: directory, model and the first prompt.

import { For, Show, createMemo, createResource, createSignal } from "solid-js"
import { call } from "../api.ts"
import type { Session } from "../core/wire.ts"
import { roots } from "../core/state.ts"
import { go, sessionLink } from "../route.ts"
import { send } from "../sending.ts"
import { type Choice, give, watch, world } from "../store.ts"
import { words } from "../words.ts"

interface Providers {
  providers: { id: string; name: string; models: Record<string, { id: string; name: string }> }[]
}

export function ModelChoice(props: { directory?: string; value: string; onChoose: (value: string) => void }) {
  const [providers] = createResource(
    () => props.directory ?? "",
    (directory) => call("providers", { query: { directory: directory || undefined } }).then((it) => it.data),
  )
  const found = () => (providers.state === "ready" ? providers().providers : [])
  return (
    <select aria-label={words.model} onChange={(event) => props.onChoose(event.target.value)}>
      <option value="">{words.defaultModel}</option>
      <For each={found()}>
        {(provider) => (
          <optgroup label={provider.name}>
            <For each={Object.values(provider.models)}>
              {(model) => (
                <option value={`${provider.id}/${model.id}`} selected={props.value === `${provider.id}/${model.id}`}>
                  {model.name}
                </option>
              )}
            </For>
          </optgroup>
        )}
      </For>
    </select>
  )
}

export function chosen(value: string): Choice | undefined {
  const at = value.indexOf("/")
  return at > 0 ? { providerID: value.slice(0, at), modelID: value.slice(at + 1) } : undefined
}

export function New() {
  const [path] = createResource(() => call("path").then((it) => it.data))
  const [typed, setTyped] = createSignal<string>()
  const [model, setModel] = createSignal("")
  const [text, setText] = createSignal("")
  const [error, setError] = createSignal("")
  const [isBusy, setBusy] = createSignal(false)
  const directory = () => typed() ?? (path.state === "ready" ? path().directory : "")
  const known = createMemo(() => (watch("list"), [...new Set(roots(world).map((session) => session.directory))]))
  const submit = async () => {
    if (isBusy() || text().trim() === "") return
    setBusy(true)
    try {
      const began = world.tick
      const { data } = await call("create", { query: { directory: directory() || undefined }, body: {} })
      give({ kind: "sessions", began, sessions: [data] })
      send(data.id, { text: text(), files: [] }, "steer", chosen(model()))
      go(sessionLink(data.id))
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure))
    } finally {
      setBusy(false)
    }
  }
  const keys = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return
    event.preventDefault()
    void submit()
  }
  return (
    <form
      class="new"
      onSubmit={(event) => {
        event.preventDefault()
        void submit()
      }}
    >
      <h2>{words.newSession}</h2>
      <label>
        {words.directory}
        <input value={directory()} list="directories" spellcheck={false} onInput={(event) => setTyped(event.target.value)} />
        <datalist id="directories">
          <For each={known()}>{(name) => <option value={name} />}</For>
        </datalist>
      </label>
      <label>
        {words.model}
        <ModelChoice directory={directory()} value={model()} onChoose={setModel} />
      </label>
      <label>
        {words.promptLabel}
        <textarea rows="6" placeholder={words.prompt} autofocus onInput={(event) => setText(event.target.value)} onKeyDown={keys} />
      </label>
      <Show when={error()}>
        <p class="error" role="alert">
          {error()}
        </p>
      </Show>
      <button class="primary" disabled={isBusy()}>
        {words.start}
      </button>
    </form>
  )
}
