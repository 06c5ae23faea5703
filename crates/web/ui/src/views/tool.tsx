// A tool call as a card: one line, and its input, output and diff when it is open.

import { For, Show, createMemo, createSignal } from "solid-js"
import type { Part, ToolState } from "../core/wire.ts"
import { MAX_ROWS, rows } from "../patch.ts"
import { isUnfolded, setUnfolded } from "../places.ts"
import { oneLine, visible, within, withoutAnsi } from "../plain.ts"
import { watch, world } from "../store.ts"
import { duration, words } from "../words.ts"
import { ChildCard } from "./children.tsx"

const MAX_LINES = 200

const text = (value: unknown) => (typeof value === "string" ? value : undefined)

// The line of a card: what the call is about.
function subject(state: ToolState): string {
  const input = state.input ?? {}
  const named = ["command", "filePath", "path", "pattern", "url", "description", "query"].map((name) => text(input[name]))
  return state.title || named.find(Boolean) || ""
}

export function Tool(props: { part: Part }) {
  const state = () => props.part.state ?? { status: "pending" as const }
  const patch = createMemo(() => {
    const { metadata } = state()
    return text(metadata?.diff) ?? text(metadata?.filediff?.patch)
  })
  const time = () => {
    watch("now")
    const { start, end } = state().time ?? {}
    if (start === undefined) return ""
    const ms = (end ?? world.now) - start
    return ms >= 1_000 ? duration(ms) : ""
  }
  const directory = () => world.sessions.get(props.part.sessionID)?.info.directory
  const child = () => {
    const { metadata } = state()
    return text(metadata?.sessionId) ?? text(metadata?.sessionID)
  }
  const isError = () => state().status === "error"
  return (
    <>
      <Show when={child()}>{(id) => <ChildCard id={id()} status={state().status} />}</Show>
      <details
        class="tool"
        data-status={state().status}
        open={isUnfolded(props.part.id, isError())}
        onToggle={(event) => setUnfolded(props.part.id, event.currentTarget.open, isError())}
      >
        <summary>
          <span class="mark" aria-hidden="true" />
          <span class="name">{oneLine(props.part.tool ?? "")}</span>
          <span class="subject">{oneLine(within(subject(state()), directory()))}</span>
          <span class="time">{time()}</span>
          <span class="hidden">{state().status}</span>
        </summary>
        <div class="body">
          <Input input={state().input ?? {}} hasPatch={patch() !== undefined} />
          <Show when={patch()}>{(it) => <Diff patch={it()} directory={directory()} />}</Show>
          <Show when={state().error}>{(it) => <Output text={it()} isError />}</Show>
          <Show when={state().output}>{(it) => <Output text={it()} />}</Show>
          <Show when={(state() as { isCut?: boolean }).isCut}>
            <p class="fate">{words.isCut}</p>
          </Show>
        </div>
      </details>
    </>
  )
}

function Input(props: { input: Record<string, unknown>; hasPatch: boolean }) {
  const command = () => text(props.input.command)
  // A diff says the same as the text that was written.
  const rest = () => {
    const skipped = props.hasPatch ? ["content", "oldString", "newString", "command"] : ["command"]
    return Object.fromEntries(Object.entries(props.input).filter(([name]) => !skipped.includes(name)))
  }
  return (
    <>
      <Show when={command()}>{(it) => <pre class="command">$ {visible(it()).replaceAll("␊", "\n")}</pre>}</Show>
      <Show when={Object.keys(rest()).length > 0}>
        <dl class="input">
          <For each={Object.entries(rest())}>
            {([name, value]) => (
              <>
                <dt>{oneLine(name)}</dt>
                <dd tabindex="0">{visible(typeof value === "string" ? value : JSON.stringify(value, null, 1)).replaceAll("␊", "\n")}</dd>
              </>
            )}
          </For>
        </dl>
      </Show>
    </>
  )
}

function Output(props: { text: string; isError?: boolean }) {
  const [isWhole, setWhole] = createSignal(false)
  const lines = createMemo(() => withoutAnsi(props.text).split("\n"))
  return (
    <>
      <pre class="output" classList={{ error: props.isError }} tabindex="0">
        {(isWhole() ? lines() : lines().slice(0, MAX_LINES)).join("\n")}
      </pre>
      <Show when={!isWhole() && lines().length > MAX_LINES}>
        <button type="button" class="quiet" onClick={() => setWhole(true)}>
          {words.showAll} ({lines().length})
        </button>
      </Show>
    </>
  )
}

export function Diff(props: { patch: string; directory?: string }) {
  const [isWhole, setWhole] = createSignal(false)
  const all = createMemo(() => rows(props.patch))
  return (
    <div class="diff" tabindex="0">
      <For each={isWhole() ? all() : all().slice(0, MAX_ROWS)}>
        {(row) => (
          <div class="line" data-kind={row.kind}>
            <span class="number">{row.old}</span>
            <span class="number">{row.now}</span>
            <span class="sign" aria-hidden="true">
              {row.kind === "add" ? "+" : row.kind === "remove" ? "−" : ""}
            </span>
            <span class="source">
              {visible(row.kind === "file" ? within(row.text, props.directory) : row.text.replaceAll("\t", "    "))}
            </span>
          </div>
        )}
      </For>
      <Show when={!isWhole() && all().length > MAX_ROWS}>
        <button type="button" class="quiet" onClick={() => setWhole(true)}>
          {words.showAll} ({all().length})
        </button>
      </Show>
    </div>
  )
}
