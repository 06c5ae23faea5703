// Stops a turn: with the button, or with Escape twice.

import { createEffect, createMemo, createSignal, onCleanup, onMount } from "solid-js"
import { call } from "../api.ts"
import { family, isBusy, requestsOf } from "../core/state.ts"
import { watch, world } from "../store.ts"

// Between two presses of Escape that stop a turn: long enough to read what the second one does.
const TWICE_MS = 3_000

export interface Stopper {
  isBusy: () => boolean
  isStopping: () => boolean
  // True after the first Escape.
  isAsked: () => boolean
  error: () => string
  // Everything that the stop ends besides the turn.
  losses: () => { requests: number; prompts: number; children: number }
  stop: () => void
}

export function createStopper(session: string): Stopper {
  const [isStopping, setStopping] = createSignal(false)
  const [isAsked, setAsked] = createSignal(false)
  const [error, setError] = createSignal("")
  const busy = createMemo(() => (watch(`status ${session}`), isBusy(world, session)))
  let timer: ReturnType<typeof setTimeout> | undefined
  const forget = () => {
    clearTimeout(timer)
    setAsked(false)
  }
  createEffect(() => {
    if (busy()) return
    setStopping(false)
    setError("")
    forget()
  })
  const stop = () => {
    if (isStopping()) return
    forget()
    setStopping(true)
    setError("")
    call("abort", { in: { sessionID: session } }).catch((failure) => {
      setStopping(false)
      setError(failure instanceof Error ? failure.message : String(failure))
    })
  }
  const keys = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing || !busy() || document.querySelector("dialog[open], :popover-open")) return
    if (isAsked()) return stop()
    setAsked(true)
    timer = setTimeout(forget, TWICE_MS)
  }
  onMount(() => document.addEventListener("keydown", keys))
  onCleanup(() => {
    clearTimeout(timer)
    document.removeEventListener("keydown", keys)
  })
  const losses = () => {
    watch("requests")
    watch("list")
    watch(`queue ${session}`)
    const children = family(world, session).filter((member) => member !== session && isBusy(world, member))
    const prompts = world.waiting.get(session)?.length ?? 0
    return { requests: requestsOf(world, session).length, prompts, children: children.length }
  }
  return { isBusy: busy, isStopping, isAsked, error, losses, stop }
}
