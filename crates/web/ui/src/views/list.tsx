// The list of sessions by project, with their states.

import { For, Show, createMemo, createSignal } from "solid-js"
import { roots, rowState, statusOf } from "../core/state.ts"
import type { Session } from "../core/wire.ts"
import { oneLine } from "../plain.ts"
import { route, sessionLink } from "../route.ts"
import { hasMore, loadSessions, watch, world } from "../store.ts"
import { age, duration, words } from "../words.ts"
import { SideLinks } from "./links.tsx"

export function List() {
  const [filter, setFilter] = createSignal("")
  const groups = createMemo(() => {
    watch("list")
    const wanted = filter().toLowerCase()
    const found = new Map<string, string[]>()
    for (const session of roots(world)) {
      if (!session.title.toLowerCase().includes(wanted)) continue
      const group = found.get(session.directory) ?? []
      found.set(session.directory, [...group, session.id])
    }
    return [...found]
  })
  const isKnown = () => (watch("list"), world.isKnown)
  return (
    <>
      <header class="side-head">
        <h1>Baton</h1>
        <a class="button" href="#/new">
          {words.newSession}
        </a>
      </header>
      <SideLinks />
      <input
        class="filter"
        type="search"
        placeholder={words.search}
        aria-label={words.search}
        onInput={(event) => setFilter(event.target.value)}
      />
      <div class="rows">
        <Show when={groups().length === 0}>
          <p class="empty">{isKnown() ? words.noSessions : words.loading}</p>
        </Show>
        <For each={groups().map(([directory]) => directory)}>
          {(directory) => (
            <section>
              <h2 title={directory}>{oneLine(directory.split("/").at(-1) || directory)}</h2>
              <ul>
                <For each={groups().find(([name]) => name === directory)?.[1] ?? []}>{(id) => <Row id={id} />}</For>
              </ul>
            </section>
          )}
        </For>
        <Show when={hasMore()}>
          {(cursor) => (
            <button type="button" class="quiet" onClick={() => void loadSessions(cursor())}>
              {words.more}
            </button>
          )}
        </Show>
      </div>
    </>
  )
}

function Row(props: { id: string }) {
  const info = createMemo<Session | undefined>(() => (watch(`session ${props.id}`), world.sessions.get(props.id)?.info))
  const state = createMemo(() => {
    watch("list")
    watch(`status ${props.id}`)
    watch("requests")
    watch(`prompts ${props.id}`)
    return rowState(world, props.id)
  })
  const detail = () => {
    watch("now")
    const entry = world.status.get(props.id)
    const status = statusOf(world, props.id)
    if (status.type === "retry") return `${words.state("retrying")} ${duration(status.next - world.now)}`
    const label = words.state(state())
    if (state() === "idle") return age(info()?.time.updated ?? world.now, world.now)
    return state() === "working" && entry?.since ? `${label} ${duration(world.now - entry.since)}` : label
  }
  const isCurrent = () => {
    const to = route()
    return to.screen === "session" && to.id === props.id
  }
  return (
    <li>
      <a class="row" href={sessionLink(props.id)} data-state={state()} aria-current={isCurrent() ? "page" : undefined}>
        <span class="mark" aria-hidden="true" />
        <span class="title">{oneLine(info()?.title ?? props.id)}</span>
        <span class="detail">{detail()}</span>
        <span class="about">
          {info()?.model?.id ?? info()?.agent ?? ""}
          <Show when={info()?.summary?.files}>
            <span class="plus"> +{info()?.summary?.additions}</span>
            <span class="minus"> −{info()?.summary?.deletions}</span>
          </Show>
        </span>
      </a>
    </li>
  )
}
