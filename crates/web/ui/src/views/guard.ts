// The guard of a request's buttons: those that have just appeared or moved ignore clicks and keys that were meant for
// something else.

import { createSignal, onCleanup, onMount } from "solid-js"
import type { Body } from "../api.ts"
import type { Request } from "../core/world.ts"
import { type Answer, answer } from "../store.ts"

const GUARD_MS = 400

export interface Guard {
  // False for a moment after the card has appeared, and while an answer is on its way.
  isArmed: () => boolean
  // The same, also for a moment after the buttons have moved.
  isReady: () => boolean
  // Runs an answer, unless the buttons are new, and shows its failure.
  act: (run: () => Promise<void>) => void
  // The buttons have changed under the pointer.
  moved: () => void
}

export const reply = (request: Request, route: Answer, body?: Body<Answer>) => () => answer(request.id, route, body)

export const isTyping = (event: KeyboardEvent) =>
  event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)

export function createGuard(card: () => HTMLElement, setError: (text: string) => void): Guard {
  const [isArmed, setArmed] = createSignal(false)
  const [isStill, setStill] = createSignal(true)
  const arming = setTimeout(() => setArmed(true), GUARD_MS)
  let resting: ReturnType<typeof setTimeout> | undefined
  const moved = () => {
    setStill(false)
    clearTimeout(resting)
    resting = setTimeout(() => setStill(true), GUARD_MS)
  }
  // Everything that can move the buttons changes the size of the dock or of the window.
  let top = 0
  const look = () => {
    const now = card().lastElementChild?.getBoundingClientRect().top ?? 0
    if (Math.abs(now - top) > 1) moved()
    top = now
  }
  const observer = new ResizeObserver(look)
  onMount(() => {
    observer.observe(card())
    if (card().parentElement) observer.observe(card().parentElement!)
    window.addEventListener("resize", look)
  })
  onCleanup(() => {
    clearTimeout(arming)
    clearTimeout(resting)
    observer.disconnect()
    window.removeEventListener("resize", look)
  })
  const isReady = () => isArmed() && isStill()
  const act = (run: () => Promise<void>) => {
    if (!isReady()) return
    setArmed(false)
    setError("")
    run().catch((failure) => {
      setError(failure instanceof Error ? failure.message : String(failure))
      setArmed(true)
    })
  }
  return { isArmed, isReady, act, moved }
}
