// The events drawer: frames as they arrive, and the figures of the connection.

import { For, Show, createEffect, createMemo, createSignal, on } from "solid-js"
import { type Recorded, sessionOf } from "../core/recorder.ts"
import { visible } from "../plain.ts"
import { recorder, watch, world } from "../store.ts"
import { age, words } from "../words.ts"
import { Replay } from "./replay.tsx"
import { Rows } from "./rows.tsx"

const ROW_HEIGHT = 26

export function Events(props: { id: string }) {
  const [isOwn, setOwn] = createSignal(true)
  const [type, setType] = createSignal("")
  const [isPaused, setPaused] = createSignal(false)
  const [chosen, setChosen] = createSignal<Recorded>()
  const [replayed, setReplayed] = createSignal<Recorded>()
  const [shown, setShown] = createSignal<Recorded[]>([])
  const update = () => setShown(recorder.list({ session: isOwn() ? props.id : undefined, type: type() }).reverse())
  createEffect(() => {
    watch("events")
    if (!isPaused()) update()
  })
  createEffect(on([isOwn, type], update, { defer: true }))
  const text = () => JSON.stringify(shown().map(({ time, frame }) => ({ time, ...frame })).reverse(), null, 1)
  const download = () => {
    const link = document.createElement("a")
    link.href = URL.createObjectURL(new Blob([text()], { type: "application/json" }))
    link.download = "events.json"
    link.click()
    URL.revokeObjectURL(link.href)
  }
  return (
    <div class="events">
      <div class="panel-tools">
        <input
          type="search"
          placeholder={words.events.filter}
          aria-label={words.events.filter}
          onInput={(event) => setType(event.target.value)}
        />
        <button type="button" class="quiet" aria-pressed={isOwn()} onClick={() => setOwn(!isOwn())}>
          {words.events.own}
        </button>
        <button type="button" class="quiet" aria-pressed={isPaused()} onClick={() => setPaused(!isPaused())}>
          {words.events.pause}
        </button>
        <button type="button" class="quiet" onClick={() => void navigator.clipboard?.writeText(text())}>
          {words.copy}
        </button>
        <button type="button" class="quiet" onClick={download}>
          {words.events.download}
        </button>
      </div>
      <Figures />
      <Show when={replayed()} keyed>
        {(row) => <Replay id={props.id} from={row} onClose={() => setReplayed(undefined)} />}
      </Show>
      <Show when={!replayed()}>
        <Show when={shown().length > 0} fallback={<p class="empty">{words.events.none}</p>}>
          <Rows class="frames" rows={shown()} height={() => ROW_HEIGHT} label={words.panel.names.events}>
            {(row) => (
              <button type="button" class="frame-row" aria-pressed={chosen() === row} onClick={() => setChosen(chosen() === row ? undefined : row)}>
                <time>{new Date(row.time).toISOString().slice(11, 23)}</time>
                <span class="type">{visible(row.frame.event.type)}</span>
                <Show when={!isOwn()}>
                  <span class="fate">{sessionOf(row.frame)}</span>
                </Show>
                <span class="fate">{row.frame.id}</span>
              </button>
            )}
          </Rows>
        </Show>
        <Show when={chosen()}>
          {(row) => (
            <>
              <div class="panel-tools">
                <button type="button" class="quiet" onClick={() => setReplayed(row())}>
                  {words.replay.from}
                </button>
              </div>
              <pre class="frame-json" tabindex="0">
                {visible(JSON.stringify(row().frame, null, 2)).replaceAll("␊", "\n")}
              </pre>
            </>
          )}
        </Show>
      </Show>
    </div>
  )
}

function Figures() {
  const figures = createMemo(() => {
    watch("events")
    watch("now")
    const { duplicates, unreadable, unknown, differences } = world.counts
    const last = recorder.list().at(-1)
    return [
      [words.events.cursor, world.cursor ?? "–"],
      [words.events.last, last ? age(last.time, world.now) : "–"],
      [words.events.connections, world.connection],
      [words.events.duplicates, duplicates],
      [words.events.unreadable, unreadable],
      [words.events.unknown, unknown],
      [words.events.differences, differences],
    ] as const
  })
  return (
    <dl class="figures">
      <For each={figures()}>
        {([name, value]) => (
          <div>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        )}
      </For>
    </dl>
  )
}
