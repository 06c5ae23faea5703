// The screen of everything that waits for the user, over all projects: requests, then failed turns, then finished ones.

import { For, Show, createMemo } from "solid-js"
import { endReason } from "../core/fold.ts"
import { needs } from "../core/overview.ts"
import type { Session } from "../core/wire.ts"
import { oneLine } from "../plain.ts"
import { sessionLink } from "../route.ts"
import { watch, world } from "../store.ts"
import { age, words } from "../words.ts"
import { Requests } from "./requests.tsx"

export function Needs() {
  const all = createMemo(() => {
    watch("list")
    watch("requests")
    return needs(world)
  })
  // One request at a time takes keys and clicks; the next one follows when it is answered.
  const first = createMemo(() => all().requests[0]?.root)
  const title = (id: string) => (watch(`session ${id}`), oneLine(world.sessions.get(id)?.info.title ?? id))
  const folder = (id: string) => (watch(`session ${id}`), oneLine(world.sessions.get(id)?.info.directory.split("/").at(-1) ?? ""))
  const isEmpty = () => all().requests.length + all().failed.length + all().finished.length === 0
  return (
    <div class="screen">
      <header class="screen-head">
        <a class="back" href="#/" aria-label={words.back}>
          ‹
        </a>
        <h2>{words.needsPage.title}</h2>
      </header>
      <Show when={!isEmpty()} fallback={<p class="empty">{words.needsPage.nothing}</p>}>
        <Show when={first()} keyed>
          {(root) => (
            <section class="asking">
              <h3>
                <a href={sessionLink(root)}>{title(root)}</a>
                <span class="fate"> {folder(root)}</span>
              </h3>
              <Requests id={root} />
            </section>
          )}
        </Show>
        <Show when={all().requests.length > 1}>
          <section>
            <h3>{words.needsPage.next}</h3>
            <ul class="needs-list">
              <For each={all().requests.slice(1)}>
                {({ root, requests }) => (
                  <li>
                    <a class="need" data-state="needs" href={sessionLink(root)}>
                      <span class="mark" aria-hidden="true" />
                      <span class="title">{title(root)}</span>
                      <span class="detail">{words.needsPage.requests(requests.length)}</span>
                    </a>
                  </li>
                )}
              </For>
            </ul>
          </section>
        </Show>
        <Sessions title={words.needsPage.failed} state="error" sessions={all().failed} />
        <Sessions title={words.needsPage.finished} state="done" sessions={all().finished} />
      </Show>
    </div>
  )
}

function Sessions(props: { title: string; state: "error" | "done"; sessions: Session[] }) {
  return (
    <Show when={props.sessions.length > 0}>
      <section>
        <h3>{props.title}</h3>
        <ul class="needs-list">
          <For each={props.sessions}>
            {(info) => (
              <li>
                <a class="need" data-state={props.state} href={sessionLink(info.id)}>
                  <span class="mark" aria-hidden="true" />
                  <span class="title">{oneLine(info.title)}</span>
                  <span class="detail">{age(info.time.updated, world.now)}</span>
                  <span class="about">
                    {words.end(endReason(world, info.id))}
                    <Show when={world.errors.get(info.id)}>{(message) => <>: {oneLine(message())}</>}</Show>
                  </span>
                </a>
              </li>
            )}
          </For>
        </ul>
      </section>
    </Show>
  )
}
