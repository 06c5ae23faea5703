// The panel beside a session: changes, files, todos, terminals and events. It is part of the address and remembered per session.

import { ErrorBoundary, For, Match, Show, Switch, createEffect, lazy, on, onCleanup, onMount } from "solid-js"
import { readChanges } from "../changes.ts"
import { storedBySession } from "../kept.ts"
import { panelLink, replace, route } from "../route.ts"
import { words } from "../words.ts"

export const PANELS = ["changes", "files", "todos", "terminal", "events"] as const
export type PanelName = (typeof PANELS)[number]

// Sessions whose panel is remembered.
const MAX_SESSIONS = 100
// A panel opens by itself only where it fits beside the session.
const WIDE = "(min-width: 1100px)"

const remembered = storedBySession<PanelName>("panel", MAX_SESSIONS)

const Changes = lazy(() => import("./changes.tsx").then((it) => ({ default: it.Changes })))
const Files = lazy(() => import("./files.tsx").then((it) => ({ default: it.Files })))
const TodoPanel = lazy(() => import("./todos.tsx").then((it) => ({ default: it.TodoPanel })))
const TerminalPanel = lazy(() => import("./terminal.tsx").then((it) => ({ default: it.TerminalPanel })))
const Events = lazy(() => import("./events.tsx").then((it) => ({ default: it.Events })))

export const panelOf = (): PanelName | undefined => PANELS.find((name) => name === route().query.panel)

export function closePanel(session: string) {
  remembered.set(session, undefined)
  replace(panelLink(session, undefined))
}

// Links to the panels, for the head of a session.
export function PanelLinks(props: { id: string }) {
  return (
    <nav class="panel-links" aria-label={words.panel.title}>
      <For each={PANELS}>
        {(name) => (
          <a
            class="button"
            href={panelLink(props.id, panelOf() === name ? undefined : name)}
            aria-current={panelOf() === name ? "true" : undefined}
            onClick={() => panelOf() === name && remembered.set(props.id, undefined)}
          >
            {words.panel.names[name]}
          </a>
        )}
      </For>
    </nav>
  )
}

export function Panel(props: { id: string }) {
  createEffect(
    on([() => props.id, panelOf], ([id, name]) => {
      if (name) return remembered.set(id, name)
      const last = remembered.get(id)
      if (last && matchMedia(WIDE).matches) replace(panelLink(id, last))
    }),
  )
  return <Show when={panelOf()}>{(name) => <Frame id={props.id} name={name()} />}</Show>
}

function Frame(props: { id: string; name: PanelName }) {
  let box!: HTMLElement
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Escape" && !event.defaultPrevented && box.contains(document.activeElement)) {
      // Escape in the panel closes it and does not count towards stopping a turn.
      event.stopPropagation()
      closePanel(props.id)
    }
  }
  onMount(() => box.addEventListener("keydown", keys))
  onCleanup(() => box.removeEventListener("keydown", keys))
  return (
    <aside class="panel" ref={box} aria-label={words.panel.names[props.name]}>
      <header class="panel-head">
        <nav class="panel-tabs" aria-label={words.panel.title}>
          <For each={PANELS}>
            {(name) => (
              <a href={panelLink(props.id, name)} aria-current={props.name === name ? "true" : undefined}>
                {words.panel.names[name]}
              </a>
            )}
          </For>
        </nav>
        <button type="button" class="quiet close" aria-label={words.panel.close} onClick={() => closePanel(props.id)}>
          ✕
        </button>
      </header>
      <ErrorBoundary
        fallback={(error, reset) => (
          <div class="empty" role="alert">
            <p>{String(error)}</p>
            <button type="button" onClick={reset}>
              {words.tryAgain}
            </button>
          </div>
        )}
      >
        <Switch>
          <Match when={props.name === "changes"}>
            <ChangesPanel id={props.id} />
          </Match>
          <Match when={props.name === "files"}>
            <Files id={props.id} />
          </Match>
          <Match when={props.name === "todos"}>
            <TodoPanel id={props.id} />
          </Match>
          <Match when={props.name === "terminal"}>
            <TerminalPanel id={props.id} />
          </Match>
          <Match when={props.name === "events"}>
            <Events id={props.id} />
          </Match>
        </Switch>
      </ErrorBoundary>
    </aside>
  )
}

// Reads the changes while the code that shows them is loaded.
function ChangesPanel(props: { id: string }) {
  const source = readChanges(() => props.id)
  return <Changes id={props.id} source={source} />
}
