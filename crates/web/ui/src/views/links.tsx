// Links to the screens beside the list.

import { For, Show } from "solid-js"
import { route } from "../route.ts"
import { watch, world } from "../store.ts"
import { words } from "../words.ts"

export function SideLinks() {
  const waiting = () => (watch("requests"), world.requests.size)
  const links = () =>
    [
      ["home", "#/", words.overview.title],
      ["needs", "#/needs", words.needsPage.title],
      ["settings", "#/settings", words.settings.title],
    ] as const
  return (
    <div class="side-links">
      <For each={links()}>
        {([screen, target, name]) => (
          <a href={target} aria-current={route().screen === screen ? "page" : undefined}>
            {name}
            <Show when={screen === "needs" && waiting() > 0}>
              <span class="badge">{waiting()}</span>
            </Show>
          </a>
        )}
      </For>
    </div>
  )
}
