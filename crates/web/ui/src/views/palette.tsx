// The palette: sessions, screens, files, commands, own prompts and texts of all sessions by a few letters.

import { For, Show, createEffect, createMemo, createResource, createSignal, onCleanup, onMount } from "solid-js"
import { call } from "../api.ts"
import { compose } from "../compose.ts"
import { rank, textOf } from "../core/find.ts"
import { roots } from "../core/state.ts"
import { stored } from "../kept.ts"
import { keyText } from "../keys.ts"
import { setFinding, setOverlay } from "../overlay.ts"
import { oneLine } from "../plain.ts"
import { go, messageLink, panelLink, route, sessionLink } from "../route.ts"
import { LOOKS, change } from "../settings.ts"
import { watch, world } from "../store.ts"
import { words } from "../words.ts"
import { PANELS } from "./panel.tsx"
import { SECTIONS } from "./sections.ts"
import { takeKeys } from "./typeahead.ts"

interface Item {
  id: string
  kind: keyof typeof words.palette.kinds
  name: string
  detail?: string
  key?: string
  run: () => void
}

// Entries that are listed, and choices that are remembered.
const MAX_ITEMS = 60
const MAX_RECENT = 20
const MAX_PROMPTS = 50
// Letters from which on files and texts are searched, and the pause before the server is asked.
const MIN_FILE = 2
const MIN_TEXT = 3
const PAUSE_MS = 200
const MAX_TEXTS = 20

interface Found {
  sessionID: string
  messageID: string
  partID: string
  title: string
  snippet: string
}

const [recent, setRecent] = stored<string[]>("palette", [])

export function Palette(props: { onClose: () => void }) {
  const [typed, setTyped] = createSignal("")
  const [at, setAt] = createSignal(0)
  let dialog!: HTMLDialogElement
  let field!: HTMLInputElement
  onMount(() => {
    dialog.showModal()
    takeKeys(field)
  })
  const session = () => {
    const to = route()
    return to.screen === "session" ? to.id : undefined
  }
  const directory = () => world.sessions.get(session() ?? "")?.info.directory
  // The typed text when the keys last paused.
  const [settled, setSettled] = createSignal("")
  createEffect(() => {
    const now = typed().trim()
    const timer = setTimeout(() => setSettled(now), PAUSE_MS)
    onCleanup(() => clearTimeout(timer))
  })
  const [texts] = createResource(
    () => (settled().length >= MIN_TEXT ? { query: settled(), limit: MAX_TEXTS } : undefined),
    (query) => call("findMessage", { query }).then((it) => it.data, () => []),
  )
  const [files] = createResource(
    () => (settled().length >= MIN_FILE && session() ? { query: settled(), limit: 20, directory: directory() } : undefined),
    (query) => call("findFile", { query }).then((it) => it.data, () => []),
  )
  const [commands] = createResource(
    () => (session() ? { directory: directory() } : undefined),
    (query) => call("commands", { query }).then((it) => it.data, () => []),
  )
  const fixed = createMemo(() => [...screens(session()), ...sessions(), ...prompts(session())])
  const items = createMemo(() => {
    const id = session()
    const found = [...fixed()]
    if (id) {
      for (const command of commands.latest ?? []) {
        found.push({ id: `command ${command.name}`, kind: "command", name: `/${command.name}`, detail: command.description, run: () => void compose(id, `/${command.name} `) })
      }
    }
    const scored = found
      .map((item) => ({ item, score: rank(item.name, typed()) + (recent().includes(item.id) ? 50 - recent().indexOf(item.id) : 0) }))
      .filter(({ item }) => rank(item.name, typed()) > 0)
      .sort((left, right) => right.score - left.score)
      .map(({ item }) => item)
    const named = id && typed().length >= MIN_FILE ? (files.latest ?? []) : []
    const extra = named.map((path): Item => ({ id: `file ${path}`, kind: "file", name: path, run: () => go(panelLink(id!, "files", { file: path })) }))
    const said = typed().trim().length >= MIN_TEXT ? (texts.latest ?? []) : []
    const lines = said.map((it): Item => ({ id: `text ${it.partID}`, kind: "text", name: it.snippet, detail: it.title, run: () => go(messageLink(it.sessionID, it.messageID)) }))
    return [...scored, ...extra, ...lines].slice(0, MAX_ITEMS)
  })
  createEffect(() => (typed(), setAt(0)))
  const choose = (item: Item | undefined) => {
    if (!item) return
    setRecent([item.id, ...recent().filter((id) => id !== item.id)].slice(0, MAX_RECENT))
    dialog.close()
    item.run()
  }
  const move = (step: number) => {
    const next = (at() + step + items().length) % Math.max(1, items().length)
    setAt(next)
    document.getElementById(`palette-${next}`)?.scrollIntoView({ block: "nearest" })
  }
  const keys = (event: KeyboardEvent) => {
    if (event.isComposing) return
    if (event.key === "ArrowDown") move(1)
    else if (event.key === "ArrowUp") move(-1)
    else if (event.key === "Enter") choose(items()[at()])
    else return
    event.preventDefault()
  }
  return (
    <dialog ref={dialog} class="palette" aria-label={words.palette.title} onClose={props.onClose}>
      <input
        ref={field}
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={items().length > 0 ? `palette-${at()}` : undefined}
        aria-label={words.palette.title}
        placeholder={words.palette.hint}
        autofocus
        spellcheck={false}
        onInput={(event) => setTyped(event.target.value)}
        onKeyDown={keys}
      />
      <ul role="listbox" id="palette-list" aria-label={words.palette.title}>
        <For each={items()}>
          {(item, index) => (
            <li role="option" id={`palette-${index()}`} aria-selected={index() === at()} onClick={() => choose(item)} onPointerMove={() => setAt(index())}>
              <span class="kind">{words.palette.kinds[item.kind]}</span>
              <span class="name">{oneLine(item.name)}</span>
              <span class="detail">{oneLine(item.detail ?? "")}</span>
              <Show when={item.key}>{(key) => <kbd>{key()}</kbd>}</Show>
            </li>
          )}
        </For>
      </ul>
      <Show when={items().length === 0}>
        <p class="empty">{words.palette.none}</p>
      </Show>
    </dialog>
  )
}

function screens(session: string | undefined): Item[] {
  const to = (id: string, name: string, target: string, key?: string): Item => ({ id, kind: "screen", name, key, run: () => go(target) })
  const found = [
    to("new", words.newSession, "#/new", keyText("create")),
    to("overview", words.overview.title, "#/"),
    to("needs", words.needsPage.title, "#/needs"),
    ...SECTIONS.map((section) => to(`settings ${section}`, `${words.settings.title}: ${words.settings.sections[section]}`, `#/settings/${section}`)),
    { id: "keys", kind: "action" as const, name: words.keys.title, key: keyText("help"), run: () => setOverlay("keys") },
    ...LOOKS.map((look): Item => ({ id: `look ${look}`, kind: "action", name: `${words.settings.look}: ${words.settings.looks[look]}`, run: () => change({ look }) })),
  ]
  if (!session) return found
  const panels = PANELS.map((name): Item => ({ id: `panel ${name}`, kind: "action", name: words.panel.names[name], run: () => go(panelLink(session, name)) }))
  return [...found, ...panels, { id: "find", kind: "action", name: words.find.title, key: keyText("find"), run: () => setFinding(true) }]
}

function sessions(): Item[] {
  watch("list")
  return roots(world).map((info) => ({
    id: `session ${info.id}`,
    kind: "session",
    name: info.title,
    detail: info.directory.split("/").at(-1),
    run: () => go(sessionLink(info.id)),
  }))
}

// The latest own prompts of the open session, to be written again.
function prompts(session: string | undefined): Item[] {
  const entries = session ? (world.windows.get(session)?.entries ?? []) : []
  const texts = entries.filter(({ info }) => info.role === "user").map(({ parts }) => textOf(parts.map(({ part }) => part)))
  return [...new Set(texts.filter(Boolean))]
    .slice(-MAX_PROMPTS)
    .reverse()
    .map((text) => ({ id: `prompt ${text.slice(0, 80)}`, kind: "prompt", name: text.slice(0, 200), run: () => void compose(session!, text) }))
}
