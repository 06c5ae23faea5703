// The address of a screen is in the fragment: `#/`, `#/needs`, `#/new`, `#/s/ses_…?panel=changes`, `#/settings/looks`.

import { createSignal } from "solid-js"

export type Query = Record<string, string>

export type Route = { query: Query } & (
  | { screen: "home" }
  | { screen: "needs" }
  | { screen: "new" }
  | { screen: "project"; directory: string }
  | { screen: "settings"; section: string }
  | { screen: "session"; id: string; message?: string }
)

function decode(text: string | undefined): string {
  try {
    return decodeURIComponent(text ?? "")
  } catch {
    return text ?? ""
  }
}

export function parse(fragment: string): Route {
  const [path = "", search = ""] = fragment.replace(/^#/, "").split("?", 2)
  const query: Query = Object.fromEntries(new URLSearchParams(search))
  const [, screen, first, kind, second] = path.split("/")
  if (screen === "new") return { screen, query }
  if (screen === "needs") return { screen, query }
  if (screen === "settings") return { screen, section: decode(first) || "looks", query }
  if (screen === "p" && first) return { screen: "project", directory: decode(first), query }
  if (screen === "s" && first) {
    return { screen: "session", id: decode(first), message: kind === "m" && second ? decode(second) : undefined, query }
  }
  return { screen: "home", query }
}

const [route, setRoute] = createSignal(parse(location.hash))
window.addEventListener("hashchange", () => setRoute(parse(location.hash)))
export { route }

export const sessionLink = (id: string) => `#/s/${encodeURIComponent(id)}`
export const messageLink = (id: string, message: string) => `${sessionLink(id)}/m/${encodeURIComponent(message)}`
export const projectLink = (directory: string) => `#/p/${encodeURIComponent(directory)}`

const withQuery = (target: string, query: Record<string, string | undefined>) => {
  const pairs = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined)
  return pairs.length > 0 ? `${target}?${new URLSearchParams(pairs)}` : target
}

// The address of a panel of a session.
export const panelLink = (id: string, panel: string | undefined, more: Query = {}) =>
  withQuery(sessionLink(id), { panel, ...more })

export function go(target: string) {
  location.hash = target
}

// Changes the address without a step in the browser's history.
export function replace(target: string) {
  history.replaceState(history.state, "", target)
  setRoute(parse(location.hash))
}

// Changes some of the query of the current screen; `undefined` removes a name.
export function amend(query: Record<string, string | undefined>) {
  const [path = ""] = location.hash.split("?", 2)
  replace(withQuery(path, { ...route().query, ...query }))
}
