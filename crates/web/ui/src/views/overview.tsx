// The overview: every session that is active, and the latest others, as tiles. A project's page shows its own.

import { For, Show, createMemo } from "solid-js"
import { type Tile, groups, latest, progress, tiles } from "../core/overview.ts"
import type { RowState } from "../core/state.ts"
import { stored } from "../kept.ts"
import { oneLine } from "../plain.ts"
import { projectLink, sessionLink } from "../route.ts"
import { watch, world } from "../store.ts"
import { age, count, duration, money, words } from "../words.ts"

const [grouping, setGrouping] = stored<"state" | "project">("grouping", "state")

const folder = (directory: string) => directory.split("/").at(-1) || directory

export function Overview(props: { directory?: string }) {
  const found = createMemo(() => {
    watch("list")
    watch("requests")
    return tiles(world, props.directory)
  })
  const grouped = createMemo(() => groups(found().shown, props.directory ? "state" : grouping()))
  const isKnown = () => (watch("list"), world.isKnown)
  return (
    <div class="screen">
      <header class="screen-head">
        <a class="back" href="#/" aria-label={words.back}>
          ‹
        </a>
        <h2>{props.directory ? oneLine(folder(props.directory)) : words.overview.title}</h2>
        <Show when={props.directory}>{(path) => <span class="fate path-line">{oneLine(path())}</span>}</Show>
        <span class="space" />
        <Show when={!props.directory && found().shown.length > 0}>
          <label class="inline">
            {words.overview.groupBy}
            <select onChange={(event) => setGrouping(event.target.value as "state" | "project")}>
              <For each={["state", "project"] as const}>
                {(it) => (
                  <option value={it} selected={it === grouping()}>
                    {words.overview.groupings[it]}
                  </option>
                )}
              </For>
            </select>
          </label>
        </Show>
        <a class="button" href={props.directory ? `#/new?dir=${encodeURIComponent(props.directory)}` : "#/new"}>
          {words.newSession}
        </a>
      </header>
      <Show
        when={found().shown.length > 0}
        fallback={
          <div class="empty">
            <p>{isKnown() ? words.noSessions : words.loading}</p>
            <a class="button primary" href="#/new">
              {words.newSession}
            </a>
          </div>
        }
      >
        <For each={grouped().map(({ key }) => key)}>
          {(key) => {
            const own = createMemo(() => grouped().find((group) => group.key === key)?.tiles.map(({ info }) => info.id) ?? [], [], {
              equals: (before, now) => before.join() === now.join(),
            })
            return (
              <section class="tile-group">
                <h3>
                  <Show when={key.startsWith("/")} fallback={words.state(key as RowState)}>
                    <a href={projectLink(key)} title={key}>
                      {oneLine(folder(key))}
                    </a>
                  </Show>{" "}
                  <span class="fate">{own().length}</span>
                </h3>
                <ul class="tiles">
                  <For each={own()}>{(id) => <TileView id={id} tile={() => found().shown.find(({ info }) => info.id === id)} />}</For>
                </ul>
              </section>
            )
          }}
        </For>
        <Show when={found().left > 0}>
          <p class="fate">{words.overview.left(found().left)}</p>
        </Show>
      </Show>
    </div>
  )
}

function TileView(props: { id: string; tile: () => Tile | undefined }) {
  const info = () => (watch(`session ${props.id}`), world.sessions.get(props.id)?.info)
  const state = () => props.tile()?.state ?? "idle"
  const time = () => {
    watch("now")
    const entry = world.status.get(props.id)
    if (state() === "idle") return age(info()?.time.updated ?? world.now, world.now)
    return entry?.since ? duration(world.now - entry.since) : ""
  }
  const line = createMemo(() => {
    watch("now")
    watch(`status ${props.id}`)
    return latest(world, props.id)
  })
  const todo = () => (watch(`todos ${props.id}`), progress(world.todos.get(props.id)))
  const tokens = () => {
    const it = info()?.tokens
    return it ? it.input + it.output + it.reasoning + it.cache.read + it.cache.write : 0
  }
  return (
    <li>
      <a class="tile" href={sessionLink(props.id)} data-state={state()}>
        <span class="mark" aria-hidden="true" />
        <span class="title">{oneLine(info()?.title ?? props.id)}</span>
        <span class="detail">
          {state() === "idle" ? "" : words.state(state())} {time()}
        </span>
        <span class="tile-line">
          <Show when={line().tool}>
            {(tool) => (
              <strong>
                {oneLine(tool())}
                <Show when={line().since}>{(since) => <> {duration(world.now - since())}</>}</Show>{" "}
              </strong>
            )}
          </Show>
          {oneLine(line().text)}
        </span>
        <span class="tile-foot">
          <span>{oneLine(folder(info()?.directory ?? ""))}</span>
          <span>{info()?.model?.id ?? info()?.agent}</span>
          <Show when={todo()}>{(it) => <span>{words.overview.todos(it().done, it().all)}</span>}</Show>
          <Show when={tokens()}>{(it) => <span>{words.overview.tokens(count(it()))}</span>}</Show>
          <Show when={info()?.cost}>{(it) => <span>{money(it())}</span>}</Show>
        </span>
      </a>
    </li>
  )
}
