// A long list of rows of unknown heights. Only rows near the visible part exist on the screen.
//
// The list follows its end, or keeps the line that the user reads where it is: whatever grows, shrinks, appears or
// disappears above it, the list corrects its position before the next frame is drawn.

import { For, type JSX, createEffect, createSignal, on, onCleanup, onMount, untrack } from "solid-js"
import { Rows } from "../core/rows.ts"

// Pixels from the end within which the view follows new text.
const NEAR = 48
// Pixels beyond the visible part in which rows exist.
const MARGIN = 800
const ESTIMATE = 120
// The most rows that exist only because the focus is in one of them.
const MAX_PINNED = 100
// A measured row changes the range, which may bring a row that has not been measured yet.
const MAX_ROUNDS = 6

interface Anchor {
  key: string
  // Distance of the row's upper edge from that of the visible part.
  delta: number
  // The element at the upper edge, and its distance: more exact than the row while it exists.
  element: Element | null
  inner: number
}

export interface VirtualApi {
  toEnd(): void
  // Moves a row to the upper edge.
  toRow(key: string, delta?: number): void
  // The row at the upper edge; null at the end of the list.
  place(): { key: string; delta: number } | null
  // The row at the upper edge, also at the end of the list.
  top(): { key: string; delta: number } | null
}

export function Virtual(props: {
  keys: string[]
  class: string
  // A row that stays at the beginning while others are inserted after it.
  fixed: string
  isFollowing: boolean
  onFollow: (isFollowing: boolean) => void
  // The user comes near the beginning.
  onStart: () => void
  children: (key: string) => JSX.Element
  after?: JSX.Element
  ref: (api: VirtualApi) => void
}) {
  const rows = new Rows(ESTIMATE)
  const [shown, setShown] = createSignal<string[]>([])
  const slots = new Map<string, HTMLElement>()
  let box!: HTMLDivElement
  let above!: HTMLDivElement
  let below!: HTMLDivElement
  let anchor: Anchor | null = null
  let range: [number, number] = [0, 0]
  let last = 0
  let isAlive = true

  const following = () => untrack(() => props.isFollowing)
  const measure = () => {
    let hasChanged = false
    for (const [key, slot] of slots) hasChanged = rows.measure(key, slot.getBoundingClientRect().height) || hasChanged
    return hasChanged
  }
  // The position of the visible part according to the heights that are known.
  const wanted = () => {
    if (following()) return rows.total - box.clientHeight
    const at = anchor ? rows.index(anchor.key) : -1
    return at >= 0 ? rows.offset(at) - anchor!.delta : box.scrollTop
  }
  const choose = (): [number, number] => {
    const top = wanted()
    const [start, end] = rows.range(top - MARGIN, top + box.clientHeight + MARGIN)
    // A row with the focus stays, unless it is far away.
    const focused = document.activeElement?.closest<HTMLElement>("[data-row]")
    const at = focused && box.contains(focused) ? rows.index(focused.dataset.row!) : -1
    if (at < 0 || at < start - MAX_PINNED || at >= end + MAX_PINNED) return [start, end]
    return [Math.min(start, at), Math.max(end, at + 1)]
  }
  const render = (next: [number, number]) => {
    range = next
    setShown(rows.slice(...range))
    above.style.height = `${rows.offset(range[0])}px`
    below.style.height = `${Math.max(0, rows.total - rows.offset(range[1]))}px`
  }
  const correct = () => {
    if (following()) {
      box.scrollTop = box.scrollHeight
    } else if (anchor) {
      const element = anchor.element && box.contains(anchor.element) ? anchor.element : null
      const slot = element ?? slots.get(anchor.key)
      if (slot) {
        const is = slot.getBoundingClientRect().top - box.getBoundingClientRect().top
        const moved = is - (element ? anchor.inner : anchor.delta)
        if (Math.abs(moved) >= 0.5) box.scrollTop += moved
      } else {
        box.scrollTop = wanted()
      }
    }
    last = box.scrollTop
  }
  const update = () => {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const hasChanged = measure()
      const next = choose()
      const isSame = next[0] === range[0] && next[1] === range[1] && !hasChanged && round > 0
      if (isSame) break
      render(next)
    }
    correct()
  }
  // Remembers what is at the upper edge. An element inside the row is better: the row may grow above it.
  const hold = () => {
    const { top, bottom } = box.getBoundingClientRect()
    for (const key of shown()) {
      const slot = slots.get(key)
      const rect = slot?.getBoundingClientRect()
      if (!slot || !rect || rect.bottom <= top + 1 || key === props.fixed) continue
      if (rect.top >= bottom) break
      const element = leaf(slot, top)
      anchor = { key, delta: rect.top - top, element, inner: element.getBoundingClientRect().top - top }
      return
    }
    // The user has dragged the scroll bar to rows that do not exist yet.
    const row = rows.at(box.scrollTop)
    const at = rows.key(row) === props.fixed ? row + 1 : row
    const key = rows.key(at)
    anchor = key === undefined ? null : { key, delta: rows.offset(at) - box.scrollTop, element: null, inner: 0 }
  }
  const scrolled = () => {
    const isNear = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR
    // Only the user scrolls up; content that grows or shrinks does not.
    if (isNear && box.scrollTop > last) props.onFollow(true)
    else if (box.scrollTop < last - 1) props.onFollow(false)
    last = box.scrollTop
    // A list that follows its end has no line to keep, and looking for one in a long answer is slow.
    if (!following()) hold()
    update()
    if (box.scrollTop < 2 * box.clientHeight) props.onStart()
  }
  const selected = () => {
    const selection = document.getSelection()
    if (selection && !selection.isCollapsed && selection.anchorNode && box.contains(selection.anchorNode)) {
      hold()
      props.onFollow(false)
    }
  }
  const keys = (event: KeyboardEvent) => {
    if (event.key === "End" && event.target === box) api.toEnd()
  }
  const api: VirtualApi = {
    toEnd() {
      props.onFollow(true)
      update()
      update()
    },
    toRow(key, delta = 0) {
      props.onFollow(false)
      anchor = { key, delta, element: null, inner: 0 }
      update()
      hold()
    },
    top() {
      hold()
      return anchor && { key: anchor.key, delta: anchor.delta }
    },
    place: () => (following() || !anchor ? null : { key: anchor.key, delta: anchor.delta }),
  }
  props.ref(api)

  const observer = new ResizeObserver(update)
  const slotRef = (key: string) => (slot: HTMLElement) => {
    slots.set(key, slot)
    // Observing in the next frame: the row has been measured in this one.
    const frame = requestAnimationFrame(() => observer.observe(slot))
    onCleanup(() => {
      cancelAnimationFrame(frame)
      observer.unobserve(slot)
      if (slots.get(key) === slot) slots.delete(key)
    })
  }
  onMount(() => {
    createEffect(
      on(
        () => props.keys,
        (next, before) => {
          if (anchor) anchor = nearest(anchor, before ?? [], new Set(next))
          rows.set(next)
          // Positions of rows have changed, so the old range means other rows.
          range = [-1, -1]
          // Within an effect, rows would be drawn only after the measurements.
          queueMicrotask(() => isAlive && update())
        },
      ),
    )
    observer.observe(box)
    document.addEventListener("selectionchange", selected)
    onCleanup(() => {
      isAlive = false
      observer.disconnect()
      document.removeEventListener("selectionchange", selected)
    })
  })
  return (
    <div class={props.class} ref={box} onScroll={scrolled} onKeyDown={keys} tabindex="0">
      <div class="content">
        <div ref={above} />
        <For each={shown()}>
          {(key) => (
            <div class="slot" data-row={key} ref={slotRef(key)}>
              {props.children(key)}
            </div>
          )}
        </For>
        <div ref={below} />
      </div>
      {props.after}
    </div>
  )
}

// The anchor, or the first row behind it that still exists, at the same place.
function nearest(anchor: Anchor, before: string[], next: Set<string>): Anchor {
  if (next.has(anchor.key)) return anchor
  const key = before.slice(before.indexOf(anchor.key) + 1).find((key) => next.has(key))
  return key === undefined ? anchor : { key, delta: anchor.delta, element: null, inner: 0 }
}

// The innermost element that crosses or begins below the line; inline text has no box of its own worth keeping.
function leaf(root: Element, line: number): Element {
  for (let found = root; ; ) {
    const inner = [...found.children].find((child) => {
      const rect = child.getBoundingClientRect()
      return rect.height > 0 && rect.bottom > line + 1 && getComputedStyle(child).display !== "inline"
    })
    if (!inner) return found
    found = inner
  }
}
