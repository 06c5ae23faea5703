// Runs of highlighted source.

import { For, Show } from "solid-js"
import type { Run } from "../core/runs.ts"

export function Runs(props: { runs: Run[] }) {
  return (
    <For each={props.runs}>
      {(run) => (
        <Show when={run.kind} fallback={<>{run.text}</>}>
          {(kind) => <span data-token={kind()}>{run.text}</span>}
        </Show>
      )}
    </For>
  )
}
