// Find in a session: over its whole history, not only over what is loaded.

import { For, Show, createEffect, createMemo, createSignal, on, onCleanup, onMount } from "solid-js"
import { call } from "../api.ts"
import { MAX_MATCHES, type Match, findIn, textOf } from "../core/find.ts"
import type { Message, Part } from "../core/wire.ts"
import { setFindField, setFinding, setTarget } from "../overlay.ts"
import { oneLine } from "../plain.ts"
import { watch, world } from "../store.ts"
import { words } from "../words.ts"
import { takeKeys } from "./typeahead.ts"

const PAGE = 200
// Pages of history that are searched.
const MAX_PAGES = 100
// Matches that are listed under the box.
const MAX_LISTED = 100
// Marks on the screen.
const MAX_MARKS = 500

interface Text {
  id: string
  created: number
  text: string
}

const own = (info: { id: string; time: { created: number } }, parts: Part[]): Text => ({
  id: info.id,
  created: info.time.created,
  text: textOf(parts),
})

export function Find(props: { id: string }) {
  const [query, setQuery] = createSignal("")
  const [at, setAt] = createSignal(-1)
  // Messages before the loaded ones, and if they are still being read.
  const [earlier, setEarlier] = createSignal<Text[]>([])
  const [isReading, setReading] = createSignal(true)
  let box!: HTMLInputElement
  let isClosed = false
  onCleanup(() => {
    isClosed = true
    setFindField(undefined)
    unmark()
  })
  const read = async () => {
    const window = world.windows.get(props.id)
    // Messages of a gap are in no cursor of the window, so the history is read from its end.
    let before = window?.gap ? undefined : (window?.older ?? undefined)
    for (let page = 0; (before || (page === 0 && window?.gap)) && page < MAX_PAGES && !isClosed; page++) {
      const { data, headers } = await call("messages", {
        in: { sessionID: props.id },
        query: { limit: PAGE, before },
      })
      setEarlier((known) => [...data.map(({ info, parts }) => own(info, parts)), ...known])
      before = headers.get("x-next-cursor") ?? undefined
    }
  }
  onMount(() => {
    setFindField(box)
    takeKeys(box)
    read().catch(() => {}).finally(() => setReading(false))
  })
  const matches = createMemo(() => {
    watch(`messages ${props.id}`)
    const loaded = (world.windows.get(props.id)?.entries ?? []).map(({ info, parts }) => own(info, parts.map(({ part }) => part)))
    const ids = new Set(loaded.map(({ id }) => id))
    const all = [...earlier().filter(({ id }) => !ids.has(id)), ...loaded]
    return findIn(all.sort((left, right) => left.created - right.created), query())
  })
  createEffect(on(query, () => setAt(-1)))
  createEffect(on([query, matches], () => requestAnimationFrame(() => mark(query()))))
  const step = (by: number) => {
    const count = matches().length
    if (count === 0) return
    const next = at() < 0 ? (by > 0 ? 0 : count - 1) : (at() + by + count) % count
    show(next)
  }
  const show = (index: number) => {
    setAt(index)
    const match = matches()[index]
    if (match) void reveal(props.id, match, query())
  }
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.stopPropagation()
      setFinding(false)
    }
    if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault()
      step(event.shiftKey ? -1 : 1)
    }
  }
  const status = () => {
    const count = matches().length
    if (query() === "") return ""
    const total = count >= MAX_MATCHES ? `${count}+` : `${count}`
    return `${at() >= 0 ? words.find.of(at() + 1, total) : words.find.count(total)}${isReading() ? ` · ${words.find.reading}` : ""}`
  }
  return (
    <div class="find" role="search" aria-label={words.find.title}>
      <div class="find-bar">
        <input
          ref={box}
          type="search"
          placeholder={words.find.title}
          aria-label={words.find.title}
          onInput={(event) => setQuery(event.target.value)}
          on:keydown={keys}
        />
        <span class="find-count" role="status">
          {status()}
        </span>
        <button type="button" class="quiet" aria-label={words.find.previous} onClick={() => step(-1)}>
          ↑
        </button>
        <button type="button" class="quiet" aria-label={words.find.next} onClick={() => step(1)}>
          ↓
        </button>
        <button type="button" class="quiet" aria-label={words.find.close} onClick={() => setFinding(false)}>
          ✕
        </button>
      </div>
      <Show when={query() !== "" && matches().length > 0}>
        <ol class="find-list">
          <For each={matches().slice(0, MAX_LISTED)}>
            {(match, index) => (
              <li>
                <button type="button" aria-pressed={index() === at()} onClick={() => show(index())}>
                  {oneLine(match.snippet.before)} <mark>{oneLine(match.snippet.match)}</mark> {oneLine(match.snippet.after)}
                </button>
              </li>
            )}
          </For>
        </ol>
      </Show>
    </div>
  )
}

const frame = () => new Promise((done) => requestAnimationFrame(done))

// Frames of the screen until a message of the history must be there.
const MAX_FRAMES = 600

// Brings a message of the history onto the screen.
async function reveal(session: string, match: Match, query: string) {
  setTarget({ session, message: match.message })
  let message: HTMLElement | null = null
  for (let at = 0; at < MAX_FRAMES && !message; at++) {
    await frame()
    message = document.getElementById(match.message)
  }
  await frame()
  const ranges = message ? textRanges(message, query, MAX_MARKS) : []
  const range = ranges[match.at] ?? ranges[0]
  range?.startContainer.parentElement?.scrollIntoView({ block: "center" })
  mark(query)
  highlight("find-current", range ? [range] : [])
}

// Marks are ranges of the browser, so the transcript's nodes stay as they are.
function mark(query: string) {
  const content = document.querySelector(".transcript")
  highlight("find", content && query !== "" ? textRanges(content, query, MAX_MARKS) : [])
}

function unmark() {
  highlight("find", [])
  highlight("find-current", [])
}

function highlight(name: string, ranges: Range[]) {
  // Older browsers have no highlights; the list still works there.
  const registry = (CSS as { highlights?: Map<string, Highlight> }).highlights
  if (ranges.length > 0) registry?.set(name, new Highlight(...ranges))
  else registry?.delete(name)
}

function textRanges(root: Element, query: string, limit: number): Range[] {
  const found: Range[] = []
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
  const wanted = query.toLowerCase()
  for (let node = walker.nextNode(); node && found.length < limit; node = walker.nextNode()) {
    const text = (node.nodeValue ?? "").toLowerCase()
    for (let index = text.indexOf(wanted); index >= 0 && found.length < limit; index = text.indexOf(wanted, index + wanted.length)) {
      const range = document.createRange()
      range.setStart(node, index)
      range.setEnd(node, Math.min(index + wanted.length, node.nodeValue?.length ?? 0))
      found.push(range)
    }
  }
  return found
}
