// Steps through recorded frames and shows the state that they lead to.

import { For, createMemo, createSignal } from "solid-js"
import type { Recorded } from "../core/recorder.ts"
import { replay } from "../core/replay.ts"
import { visible } from "../plain.ts"
import { recorder } from "../store.ts"
import { words } from "../words.ts"

export function Replay(props: { id: string; from: Recorded; onClose: () => void }) {
  // The recording goes on; a replay shows what there was when it began.
  const frames = recorder.list().filter((it) => it.at >= props.from.at)
  const [at, setAt] = createSignal(1)
  const scene = createMemo(() => replay(frames.slice(0, at()).map(({ frame }) => frame), props.id))
  const facts = () =>
    [
      [words.replay.frame, visible(frames[at() - 1]?.frame.event.type ?? "")],
      [words.replay.status, scene().status.type],
      [words.replay.requests, scene().requests],
      [words.replay.messages, scene().messages],
      [words.replay.text, visible(scene().text)],
      [words.replay.effective, words.of(scene().effective, at())],
      [words.events.unreadable, scene().unreadable],
    ] as const
  return (
    <section class="replay" aria-label={words.replay.title}>
      <div class="panel-tools">
        <button type="button" class="quiet" disabled={at() <= 1} onClick={() => setAt(at() - 1)}>
          {words.replay.back}
        </button>
        <input
          type="range"
          min="1"
          max={frames.length}
          value={at()}
          aria-label={words.replay.position}
          onInput={(event) => setAt(event.target.valueAsNumber)}
        />
        <button type="button" class="quiet" disabled={at() >= frames.length} onClick={() => setAt(at() + 1)}>
          {words.replay.next}
        </button>
        <span class="fate">{words.of(at(), frames.length)}</span>
        <button type="button" class="quiet" onClick={props.onClose}>
          {words.replay.close}
        </button>
      </div>
      <dl class="replay-facts">
        <For each={facts()}>
          {([name, value]) => (
            <div>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          )}
        </For>
      </dl>
      <pre class="frame-json" tabindex="0">
        {visible(JSON.stringify(scene().state, null, 2)).replaceAll("␊", "\n")}
      </pre>
    </section>
  )
}
