// The list of sessions by project, with their states and their subagents.

import { For, Show, createEffect, createMemo, createSignal, on, onCleanup } from "solid-js"
import { ancestors, childrenOf } from "../core/family.ts"
import { StableOrder } from "../core/order.ts"
import { extend } from "../core/select.ts"
import { family, roots, rowState, serverNow, statusOf } from "../core/state.ts"
import type { Session } from "../core/wire.ts"
import { isLeaving, isPinned, isRail, prompted, selected, setRail, setSelected } from "../lists.ts"
import { oneLine } from "../plain.ts"
import { route, sessionLink } from "../route.ts"
import { findSessions, hasMore, loadSessions, watch, world } from "../store.ts"
import { age, duration, words } from "../words.ts"
import { Deletions, Edge, SelectionBar } from "./arrange.tsx"
import { SideLinks } from "./links.tsx"
import { NotificationOffer } from "./offer.tsx"

// The key of the group of pinned sessions; no directory is empty.
const PINNED = ""
// The pause after which typed text is searched for on the server.
const SEARCH_MS = 300

const FILTERS = ["all", "needs", "working", "unread"] as const
type Filter = (typeof FILTERS)[number]

function matches(session: string, filter: Filter): boolean {
  const state = rowState(world, session)
  if (filter === "needs") return state === "needs"
  if (filter === "working") return state === "working" || state === "retrying" || state === "queued"
  return filter === "all" || world.unread.has(session)
}

export function List() {
  const [text, setText] = createSignal("")
  const [filter, setFilter] = createSignal<Filter>("all")
  const places = new StableOrder()
  let view: unknown[] = []
  // Sessions, the latest activity first. Rows change places only if the user looks elsewhere, prompts or filters: a row
  // must not move away under the pointer because another session works.
  const listed = createMemo(() => {
    watch("list")
    const wanted = text().toLowerCase()
    const found = roots(world)
      .filter((session) => session.title.toLowerCase().includes(wanted) && matches(session.id, filter()) && !isLeaving(session.id))
      .map(({ id }) => id)
    const before = view
    view = [wanted, filter(), prompted()]
    const isSame = view.every((it, at) => it === before[at])
    if (isSame && world.isKnown && document.hasFocus()) return places.arrange(found)
    places.reset()
    const top = found.filter((id) => view[2] !== before[2] && id === prompted()?.session)
    return places.arrange([...top, ...found.filter((id) => !top.includes(id))])
  })
  const groups = createMemo(() => {
    // Pinned sessions come first, whatever their directory.
    const found = new Map<string, string[]>([[PINNED, []]])
    for (const id of listed()) {
      const key = isPinned(id) ? PINNED : (world.sessions.get(id)?.info.directory ?? "")
      found.set(key, [...(found.get(key) ?? []), id])
    }
    return [...found].filter(([, ids]) => ids.length > 0)
  })
  const order = () => groups().flatMap(([, ids]) => ids)
  // The title of a session that is not loaded yet may match, too.
  createEffect(
    on(text, (wanted) => {
      if (wanted === "") return
      const timer = setTimeout(() => void findSessions(wanted).catch(() => {}), SEARCH_MS)
      onCleanup(() => clearTimeout(timer))
    }),
  )
  const select = (event: MouseEvent, id: string) => {
    if (!event.shiftKey) return setSelected([])
    event.preventDefault()
    const to = route()
    const anchor = selected().at(-1) ?? (to.screen === "session" ? to.id : undefined)
    setSelected(extend(order(), selected(), anchor, id))
  }
  const isKnown = () => (watch("list"), world.isKnown)
  const empty = () => {
    if (!isKnown()) return words.loading
    return filter() === "all" && text() === "" ? words.noSessions : words.noMatch
  }
  return (
    <>
      <header class="side-head">
        <h1>Baton</h1>
        <button
          type="button"
          class="quiet rail-switch"
          aria-expanded={!isRail()}
          aria-label={isRail() ? words.list.widen : words.list.narrow}
          title={isRail() ? words.list.widen : words.list.narrow}
          onClick={() => setRail(!isRail())}
        >
          {isRail() ? "»" : "«"}
        </button>
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
        onInput={(event) => setText(event.target.value)}
      />
      <div class="filters" role="group" aria-label={words.filters}>
        <For each={FILTERS}>
          {(name) => (
            <button type="button" aria-pressed={filter() === name} onClick={() => setFilter(name)}>
              {words.filter(name)}
            </button>
          )}
        </For>
      </div>
      <div class="rows">
        <Show when={groups().length === 0}>
          <p class="empty">{empty()}</p>
        </Show>
        <For each={groups().map(([directory]) => directory)}>
          {(directory) => (
            <section>
              <h2 title={directory}>{directory === PINNED ? words.list.pinned : oneLine(directory.split("/").at(-1) || directory)}</h2>
              <ul>
                <For each={groups().find(([name]) => name === directory)?.[1] ?? []}>{(id) => <Family id={id} onClick={select} />}</For>
              </ul>
            </section>
          )}
        </For>
        <Show when={hasMore()}>
          {(cursor) => (
            <>
              <p class="fate shown">{words.list.shown(order().length)}</p>
              <button type="button" class="quiet" onClick={() => void loadSessions(cursor())}>
                {words.more}
              </button>
            </>
          )}
        </Show>
      </div>
      <SelectionBar />
      <Deletions />
      <NotificationOffer />
      <Edge />
    </>
  )
}

type RowClick = (event: MouseEvent, id: string) => void

// A session and, when it is unfolded, its subagents.
function Family(props: { id: string; onClick?: RowClick }) {
  const [isOpen, setOpen] = createSignal<boolean>()
  const children = createMemo(() => (watch("list"), childrenOf(world, props.id).map((info) => info.id)), [], {
    equals: (before, now) => before.length === now.length && before.every((id, at) => id === now[at]),
  })
  // The subagents of the session on the screen are shown by themselves.
  const isInside = () => {
    const to = route()
    watch("list")
    return to.screen === "session" && ancestors(world, to.id).includes(props.id)
  }
  const isShown = () => isOpen() ?? isInside()
  return (
    <li>
      <div class="family-row">
        <Row id={props.id} onClick={props.onClick} />
        <Show when={children().length > 0}>
          <button
            type="button"
            class="unfold"
            aria-expanded={isShown()}
            aria-label={words.children(children().length)}
            title={words.children(children().length)}
            onClick={() => setOpen(!isShown())}
          >
            {children().length}
          </button>
        </Show>
      </div>
      <Show when={isShown() && children().length > 0}>
        <ul class="children">
          <For each={children()}>{(id) => <Family id={id} />}</For>
        </ul>
      </Show>
    </li>
  )
}

function Row(props: { id: string; onClick?: RowClick }) {
  const info = createMemo<Session | undefined>(() => (watch(`session ${props.id}`), world.sessions.get(props.id)?.info))
  const state = createMemo(() => {
    watch("list")
    watch(`status ${props.id}`)
    watch("requests")
    return rowState(world, props.id)
  })
  const detail = () => {
    watch("now")
    const entry = world.status.get(props.id)
    const status = statusOf(world, props.id)
    if (status.type === "retry") return `${words.state("retrying")} ${duration(status.next - serverNow(world))}`
    const label = words.state(state())
    if (state() === "idle") return age(info()?.time.updated ?? world.now, world.now)
    return state() === "working" && entry?.since ? `${label} ${duration(world.now - entry.since)}` : label
  }
  const about = () => {
    watch("list")
    watch(`queue ${props.id}`)
    const working = family(world, props.id).filter((member) => member !== props.id && statusOf(world, member).type !== "idle").length
    const waiting = world.waiting.get(props.id)?.length ?? 0
    const facts = [info()?.model?.id ?? info()?.agent ?? ""]
    if (working > 0) facts.push(words.childrenWorking(working))
    if (waiting > 0) facts.push(words.waitingCount(waiting))
    const text = facts.filter(Boolean).join(" · ")
    return text || !info() || info()?.isPartial ? text : words.list.noPrompt
  }
  const isCurrent = () => {
    const to = route()
    return to.screen === "session" && to.id === props.id
  }
  const isSelected = () => selected().includes(props.id)
  const isUnread = () => (watch("list"), world.unread.has(props.id))
  return (
    <a
      class="row"
      href={sessionLink(props.id)}
      data-state={state()}
      data-unread={isUnread() ? "" : undefined}
      data-selected={isSelected() ? "" : undefined}
      aria-current={isCurrent() ? "page" : undefined}
      title={isRail() ? oneLine(info()?.title ?? props.id) : undefined}
      onClick={(event) => props.onClick?.(event, props.id)}
    >
      <span class="mark" aria-hidden="true" />
      <span class="title">
        {oneLine(info()?.title ?? props.id)}
        <Show when={isSelected()}>
          <span class="hidden">{words.list.chosen}</span>
        </Show>
      </span>
      <span class="detail">{detail()}</span>
      <span class="about">
        {about()}
        <Show when={info()?.summary?.files}>
          <span class="plus"> +{info()?.summary?.additions}</span>
          <span class="minus"> −{info()?.summary?.deletions}</span>
        </Show>
      </span>
    </a>
  )
}
