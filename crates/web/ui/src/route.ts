// The address of a screen is in the fragment: `#/`, `#/new`, `#/s/ses_…`.

import { createSignal } from "solid-js"

export type Route = { screen: "home" } | { screen: "new" } | { screen: "session"; id: string }

export function parse(fragment: string): Route {
  const [, screen, id] = fragment.replace(/^#/, "").split("/")
  if (screen === "new") return { screen: "new" }
  if (screen === "s" && id) return { screen: "session", id: decodeURIComponent(id) }
  return { screen: "home" }
}

const [route, setRoute] = createSignal(parse(location.hash))
window.addEventListener("hashchange", () => setRoute(parse(location.hash)))
export { route }

export const sessionLink = (id: string) => `#/s/${encodeURIComponent(id)}`

export function go(target: string) {
  location.hash = target
}
