// A list that draws only the rows on the screen. Heights are given by the caller or measured.

import { For, type JSX, createEffect, createMemo, createSignal, onCleanup, onMount, untrack } from "solid-js"
import { offsets, rowAt, visible } from "../core/window.ts"

// Rows beyond the edges that are drawn, so that a short scroll shows no gap. The first frame draws only the visible ones.
const AROUND = 12

export interface Scroller<T> {
  // Scrolls until the row is at the top.
  show(row: T): void
  // The row at the top of the view.
  first(): T | undefined
}

export function Rows<T>(props: {
  rows: T[]
  height: (row: T) => number
  width?: string
  class?: string
  label: string
  scroller?: (it: Scroller<T>) => void
  onKeyDown?: (event: KeyboardEvent) => void
  children: (row: T) => JSX.Element
}) {
  let box!: HTMLDivElement
  const [top, setTop] = createSignal(0)
  const [height, setHeight] = createSignal(600)
  const tops = createMemo(() => offsets(props.rows, props.height))
  const [around, setAround] = createSignal(0)
  const range = createMemo(() => visible(tops(), top(), height(), around()), [0, 0], {
    equals: (before, now) => before[0] === now[0] && before[1] === now[1],
  })
  const shown = createMemo(() => props.rows.slice(...range()))
  const whole = () => tops()[tops().length - 1] ?? 0
  onMount(() => {
    const observer = new ResizeObserver(() => setHeight(box.clientHeight))
    observer.observe(box)
    const keys = (event: KeyboardEvent) => props.onKeyDown?.(event)
    box.addEventListener("keydown", keys)
    const frame = requestAnimationFrame(() => setAround(AROUND))
    onCleanup(() => {
      cancelAnimationFrame(frame)
      observer.disconnect()
    })
    props.scroller?.({
      show: (row) => {
        const at = props.rows.indexOf(row)
        if (at < 0) return
        box.scrollTop = tops()[at]!
        setTop(box.scrollTop)
      },
      first: () => props.rows[rowAt(tops(), box.scrollTop + 1)],
    })
  })
  // A shorter list may end above the view. One at its top need not ask the browser, which would compute the layout for it.
  createEffect(() => {
    whole()
    if (untrack(top) > 0) setTop(box.scrollTop)
  })
  return (
    <div class={`virtual ${props.class ?? ""}`} ref={box} tabindex="0" role="region" aria-label={props.label} onScroll={() => setTop(box.scrollTop)}>
      <div class="virtual-body" style={{ height: `${whole()}px`, "min-width": props.width }}>
        <div class="virtual-rows" style={{ transform: `translateY(${tops()[range()[0]] ?? 0}px)` }}>
          <For each={shown()}>{(row) => props.children(row)}</For>
        </div>
      </div>
    </div>
  )
}
