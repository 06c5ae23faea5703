// Offers notifications once, when a turn takes so long that the user does something else meanwhile.

import { Show, createEffect, createSignal } from "solid-js"
import { isBusy } from "../core/state.ts"
import { notificationSettings, notificationState, setNotifications, switchOn } from "../notify.ts"
import { watch, world } from "../store.ts"
import { words } from "../words.ts"

const LONG_MS = 30_000

export function NotificationOffer() {
  const [isLong, setLong] = createSignal(false)
  createEffect(() => {
    watch("now")
    if (isLong()) return
    const turns = [...world.status].filter(([session]) => isBusy(world, session))
    setLong(turns.some(([, { since }]) => since !== null && world.now - since > LONG_MS))
  })
  return (
    <Show when={isLong() && !notificationSettings().isOffered && notificationState() === "off"}>
      <aside class="offer">
        <p>{words.offer}</p>
        <span class="buttons">
          <button type="button" class="primary" onClick={() => void switchOn()}>
            {words.switchOn}
          </button>
          <button type="button" onClick={() => setNotifications({ isOffered: true })}>
            {words.notNow}
          </button>
        </span>
      </aside>
    </Show>
  )
}
