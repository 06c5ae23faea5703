// The tabs at the lower edge of a phone: what needs the user, all sessions, and the session that was open last.

import { Show, createEffect, createSignal } from "solid-js"
import { route, sessionLink } from "../route.ts"
import { watch, world } from "../store.ts"
import { words } from "../words.ts"

export function PhoneTabs() {
  const [last, setLast] = createSignal<string>()
  createEffect(() => {
    const to = route()
    if (to.screen === "session") setLast(to.id)
  })
  const waiting = () => (watch("requests"), world.requests.size)
  const current = (screen: string) => (route().screen === screen ? "page" : undefined)
  return (
    <nav class="tabs" aria-label={words.screens}>
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
