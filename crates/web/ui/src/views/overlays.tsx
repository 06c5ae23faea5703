// The dialogs that a key opens anywhere: the palette and the list of keys.

import { Match, Switch, createEffect, on, onCleanup, onMount } from "solid-js"
import { isKey } from "../keys.ts"
import { focusFind, overlay, setFinding, setOverlay } from "../overlay.ts"
import { route } from "../route.ts"
import { part } from "./part.ts"
import { holdKeys } from "./typeahead.ts"

const Palette = part(() => import("./palette.tsx").then((it) => it.Palette))
const Keys = part(() => import("./keys.tsx").then((it) => it.Keys))

export function Overlays() {
  const keys = (event: KeyboardEvent) => {
    if (isKey(event, "palette") || isKey(event, "search")) {
      event.preventDefault()
      const isOpen = overlay() === "palette"
      if (!isOpen) holdKeys(() => setOverlay(undefined))
      setOverlay(isOpen ? undefined : "palette")
    } else if (isKey(event, "find") && route().screen === "session") {
      event.preventDefault()
      if (!focusFind()) holdKeys(() => setFinding(false))
      setFinding(true)
    } else if (isKey(event, "help")) {
      event.preventDefault()
      setOverlay("keys")
    }
  }
  onMount(() => document.addEventListener("keydown", keys))
  onCleanup(() => document.removeEventListener("keydown", keys))
  createEffect(on(() => (route().screen === "session" ? (route() as { id: string }).id : ""), () => setFinding(false), { defer: true }))
  return (
    <Switch>
      <Match when={overlay() === "palette"}>
        <Palette onClose={() => setOverlay(undefined)} />
      </Match>
      <Match when={overlay() === "keys"}>
        <Keys onClose={() => setOverlay(undefined)} />
      </Match>
    </Switch>
  )
}
