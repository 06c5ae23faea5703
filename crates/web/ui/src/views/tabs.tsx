// The tabs at the lower edge of a phone: what needs the user, all sessions, and the session that was open last.

import { Show, createEffect, createSignal, onCleanup, onMount } from "solid-js"
import { route, sessionLink } from "../route.ts"
import { watch, world } from "../store.ts"
import { words } from "../words.ts"

// Longer than a tap. A tap takes the focus from the composer before its click: a page that made room for the tabs at once
// would move the tapped button away.
const TAP_MS = 400

// True while the user writes in a composer: the keyboard of the screen needs the room.
function createWriting() {
  const [isWriting, setWriting] = createSignal(false)
  const isComposer = () => document.activeElement?.matches(".composer textarea") ?? false
  let timer: ReturnType<typeof setTimeout> | undefined
  const look = () => {
    clearTimeout(timer)
    if (isComposer()) setWriting(true)
    else timer = setTimeout(() => setWriting(isComposer()), TAP_MS)
  }
  onMount(() => {
    document.addEventListener("focusin", look)
    document.addEventListener("focusout", look)
    onCleanup(() => {
      clearTimeout(timer)
      document.removeEventListener("focusin", look)
      document.removeEventListener("focusout", look)
    })
  })
  return isWriting
}

export function PhoneTabs() {
  const isWriting = createWriting()
  const [last, setLast] = createSignal<string>()
  createEffect(() => {
    const to = route()
    if (to.screen === "session") setLast(to.id)
  })
  const waiting = () => (watch("requests"), world.requests.size)
  const current = (screen: string) => (route().screen === screen ? "page" : undefined)
  return (
    <nav class="tabs" data-away={isWriting() ? "" : undefined} aria-label={words.screens}>
      <a href="#/needs" aria-current={current("needs")}>
        {words.needs}
        <Show when={waiting() > 0}>
          <span class="badge">{waiting()}</span>
        </Show>
      </a>
      <a href="#/" aria-current={current("home")}>
        {words.sessions}
      </a>
      <Show when={last()} fallback={<span class="off">{words.session}</span>}>
        {(id) => (
          <a href={sessionLink(id())} aria-current={current("session")}>
            {words.session}
          </a>
        )}
      </Show>
    </nav>
  )
}
