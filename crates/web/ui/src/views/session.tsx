// One session: its head, the transcript, open requests and the composer.

import { Show, createMemo, createSignal } from "solid-js"
import type { Session as Info } from "../core/wire.ts"
import { trackSeen } from "../marks.ts"
import { isFinding } from "../overlay.ts"
import { oneLine } from "../plain.ts"
import { watch, world } from "../store.ts"
import { words } from "../words.ts"
import { Composer } from "./composer.tsx"
import { Head } from "./head.tsx"
import { part } from "./part.ts"
import { Queue } from "./queue.tsx"
import { Requests } from "./requests.tsx"
import { StatusBanners, Todos } from "./status.tsx"
import { createStopper } from "./stop.ts"
import { Transcript } from "./transcript.tsx"

const Find = part(() => import("./find.tsx").then((it) => it.Find))

export function Session(props: { id: string }) {
  const info = createMemo<Info | undefined>(() => (watch(`session ${props.id}`), world.sessions.get(props.id)?.info))
  const isGone = () => (watch(`session ${props.id}`), world.gone.has(props.id))
  const stopper = createStopper(props.id)
  const [isAtEnd, setAtEnd] = createSignal(false)
  trackSeen(props.id, isAtEnd)
  return (
    <Show when={!isGone()} fallback={<Gone />}>
      <section class="session" aria-label={oneLine(info()?.title ?? "")}>
        <Head id={props.id} info={info()} stopper={stopper} />
        <Show when={isFinding()}>
          <Find id={props.id} />
        </Show>
        <Transcript id={props.id} onEnd={setAtEnd} />
        <div class="dock">
          <StatusBanners id={props.id} stopper={stopper} />
          <Todos id={props.id} />
          <Requests id={props.id} />
          <Queue id={props.id} />
          <Composer id={props.id} info={info()} />
        </div>
      </section>
    </Show>
  )
}

// The address of a session that has been deleted, or never existed.
function Gone() {
  return (
    <div class="empty">
      <p role="status">{words.notFound}</p>
      <p class="ways">
        <a class="button" href="#/">
          {words.overview.title}
        </a>
        <a class="button" href="#/new">
          {words.newSession}
        </a>
      </p>
    </div>
  )
}
