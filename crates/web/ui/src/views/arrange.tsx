// Actions on the list itself: its edge, the bar for several chosen sessions, and the undo of a deletion.

import { For, Show, createSignal } from "solid-js"
import { call } from "../api.ts"
import { MAX_WIDTH, MIN_WIDTH } from "../core/select.ts"
import { deleteLater, deletions, isPinned, listWidth, selected, setListWidth, setPinned, setSelected, undo } from "../lists.ts"
import { markUnread } from "../marks.ts"
import { oneLine } from "../plain.ts"
import { give, world } from "../store.ts"
import { words } from "../words.ts"

// Pixels by which an arrow key moves the edge.
const STEP = 16

// The edge of the list, which the pointer or arrow keys move.
export function Edge() {
  let edge!: HTMLDivElement
  const current = () => listWidth() ?? Math.round(edge?.parentElement?.getBoundingClientRect().width ?? MIN_WIDTH)
  const drag = (event: PointerEvent) => {
    event.preventDefault()
    edge.setPointerCapture(event.pointerId)
    const left = edge.parentElement?.getBoundingClientRect().left ?? 0
    const move = (moved: PointerEvent) => setListWidth(moved.clientX - left)
    edge.addEventListener("pointermove", move)
    edge.addEventListener("lostpointercapture", () => edge.removeEventListener("pointermove", move), { once: true })
  }
  const keys = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -STEP, ArrowRight: STEP, Home: -MAX_WIDTH, End: MAX_WIDTH }[event.key]
    if (step === undefined) return
    event.preventDefault()
    setListWidth(current() + step)
  }
  return (
    <div
      ref={edge}
      class="edge"
      role="separator"
      tabindex="0"
      aria-orientation="vertical"
      aria-label={words.list.width}
      aria-valuemin={MIN_WIDTH}
      aria-valuemax={MAX_WIDTH}
      aria-valuenow={listWidth() ?? MIN_WIDTH}
      onPointerDown={drag}
      onKeyDown={keys}
    />
  )
}

export function SelectionBar() {
  const [error, setError] = createSignal("")
  const archive = async () => {
    setError("")
    const began = world.tick
    try {
      for (const sessionID of selected()) {
        const { data } = await call("update", { in: { sessionID }, body: { time: { archived: Date.now() } } })
        give({ kind: "sessions", began, sessions: [data] })
      }
      setSelected([])
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure))
    }
  }
  const unread = () => {
    for (const id of selected()) markUnread(id)
    setSelected([])
  }
  const isAllPinned = () => selected().every(isPinned)
  const pin = () => {
    setPinned(selected(), !isAllPinned())
    setSelected([])
  }
  return (
    <Show when={selected().length > 0}>
      <div class="selection" role="group" aria-label={words.selected(selected().length)}>
        <p role="status">{words.selected(selected().length)}</p>
        <button type="button" onClick={pin}>
          {isAllPinned() ? words.list.unpin : words.list.pin}
        </button>
        <button type="button" onClick={unread}>
          {words.markUnread}
        </button>
        <button type="button" onClick={() => void archive()}>
          {words.archive}
        </button>
        <button type="button" class="danger" onClick={() => deleteLater(selected())}>
          {words.list.delete}
        </button>
        <button type="button" onClick={() => setSelected([])}>
          {words.cancel}
        </button>
        <Show when={error()}>
          <p class="error" role="alert">
            {error()}
          </p>
        </Show>
      </div>
    </Show>
  )
}

export function Deletions() {
  return (
    <For each={deletions()}>
      {(deletion) => (
        <div class="deletion" role="status">
          <p>
            <Show when={deletion.error} fallback={words.list.deleted(deletion.sessions.length, oneLine(deletion.title))}>
              {(error) => <span class="error">{error()}</span>}
            </Show>
          </p>
          <button type="button" onClick={() => undo(deletion)}>
            {deletion.error ? words.dismiss : words.list.undo}
          </button>
        </div>
      )}
    </For>
  )
}
