// A new session: directory, worktree, agent, model and the first prompt.

import { For, Show, createMemo, createResource, createSignal, onMount } from "solid-js"
import { call } from "../api.ts"
import type { Session } from "../core/wire.ts"
import { roots } from "../core/state.ts"
import { stored } from "../kept.ts"
import { go, route, sessionLink } from "../route.ts"
import { oneLine } from "../plain.ts"
import { send } from "../sending.ts"
import { give, watch, world } from "../store.ts"
import { words } from "../words.ts"
import { AgentChoice, ModelChoice, chosen } from "./choices.tsx"
import { Toggle } from "./toggle.tsx"
import { takeKeys } from "./typeahead.ts"

// The text of a session that could not be started, or has not been yet.
const [text, setText] = stored("new", "")

export function New() {
  const [path] = createResource(() => call("path").then((it) => it.data))
  const [typed, setTyped] = createSignal<string | undefined>(route().query.dir)
  const [model, setModel] = createSignal("")
  const [agent, setAgent] = createSignal("")
  const [isApart, setApart] = createSignal(false)
  const [error, setError] = createSignal("")
  const [isBusy, setBusy] = createSignal(false)
  const directory = () => typed() ?? (path.state === "ready" ? path().directory : "")
  const known = createMemo(() => (watch("list"), [...new Set(roots(world).map((session) => session.directory))]))
  // A worktree that was made before a later step failed is used by the next attempt.
  let made: { from: string; directory: string } | undefined
  const place = async () => {
    if (!isApart()) return directory() || undefined
    if (made?.from !== directory()) {
      const { data } = await call("worktree", { query: { directory: directory() || undefined }, body: {} })
      made = { from: directory(), directory: data.directory }
    }
    return made.directory
  }
  const submit = async () => {
    if (isBusy() || text().trim() === "") return
    setBusy(true)
    setError("")
    try {
      const began = world.tick
      const body = agent() ? { agent: agent() } : {}
      const { data } = await call("create", { query: { directory: await place() }, body })
      give({ kind: "sessions", began, sessions: [data] })
      send(data.id, { text: text(), files: [] }, "steer", { model: chosen(model()) })
      setText("")
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
  let box!: HTMLTextAreaElement
  onMount(() => takeKeys(box))
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
        {words.newPage.agent}
        <AgentChoice directory={directory()} value={agent()} onChoose={setAgent} />
      </label>
      <Toggle label={words.newPage.worktree} value={isApart()} onChange={setApart} />
      <DemoHint />
      <label>
        {words.promptLabel}
        <textarea ref={box} rows="6" placeholder={words.prompt} value={text()} onInput={(event) => setText(event.target.value)} onKeyDown={keys} />
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

// The first run: the demo model needs no key, everything else does.
function DemoHint() {
  const [providers] = createResource(() => call("providers").then((it) => it.data.providers, () => []))
  const isDemoOnly = () => providers.state === "ready" && providers().every((provider) => provider.id === "demo")
  return (
    <Show when={isDemoOnly()}>
      <p class="fate">
        {words.newPage.demo} <a href="#/settings/providers">{words.newPage.addKey}</a>
      </p>
    </Show>
  )
}
