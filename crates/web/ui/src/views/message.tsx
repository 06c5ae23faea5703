// A message and its parts.

import { ErrorBoundary, For, Match, Show, Switch, createMemo } from "solid-js"
import { isPicture } from "../attachments.ts"
import { typedLine } from "../core/complete.ts"
import { serverNow } from "../core/state.ts"
import { type Message, type Part, errorText } from "../core/wire.ts"
import { Markdown } from "../markdown.tsx"
import { isUnfolded, setUnfolded } from "../places.ts"
import { oneLine } from "../plain.ts"
import { panelLink } from "../route.ts"
import { watch, world } from "../store.ts"
import { duration, words } from "../words.ts"
import { Tool } from "./tool.tsx"

// A turn usually starts at once; only a longer wait is told.
const QUEUED_MS = 1_000

const find = (session: string, id: string) => world.windows.get(session)?.entries.findLast((entry) => entry.info.id === id)

export function MessageView(props: { session: string; id: string }) {
  const entry = () => (watch(`message ${props.id}`), find(props.session, props.id))
  const info = createMemo<Message | undefined>(() => entry()?.info)
  const parts = createMemo(() => (watch(`message ${props.id}`), entry()?.parts.map(({ part }) => part.id) ?? []), [], {
    equals: (before, now) => before.length === now.length && before.every((id, at) => id === now[at]),
  })
  const fate = () => (watch(`prompts ${props.session}`), world.prompts.get(props.id)?.fate)
  const isQueued = () => {
    if (fate() !== "queued") return false
    watch("now")
    return serverNow(world) - (info()?.time.created ?? 0) > QUEUED_MS
  }
  // The server wrote this prompt: the turn continues by itself.
  const continued = () => {
    const it = info()
    if (it?.role !== "user" || it.continues === undefined) return undefined
    const marks = entry()?.parts.map(({ part }) => (part.metadata as { continuation?: { n?: number } } | undefined)?.continuation?.n)
    return marks?.find((n) => n !== undefined) ?? 1
  }
  // The line of the user that the server has turned into this prompt.
  const typed = () => {
    const it = info()
    return it?.role === "user" ? typedLine(it) : undefined
  }
  const error = () => {
    const it = info()
    return it?.role === "assistant" && it.error && it.error.name !== "MessageAbortedError" ? it.error : undefined
  }
  const content = () => (
    <For each={parts()}>
      {(id) => (
        // One broken part never takes the rest down.
        <ErrorBoundary fallback={(failure) => <p class="error">{String(failure)}</p>}>
          <PartView session={props.session} message={props.id} id={id} isUser={info()?.role === "user"} />
        </ErrorBoundary>
      )}
    </For>
  )
  return (
    <article
      class="message"
      id={props.id}
      classList={{ user: info()?.role === "user", assistant: info()?.role !== "user" }}
      aria-label={info()?.role === "user" ? words.yourPrompt : words.agentAnswer}
    >
      <Show when={continued()}>{(n) => <p class="chip">{words.continuedByItself(n())}</p>}</Show>
      <Show when={typed()} fallback={content()}>
        {(line) => (
          <>
            <p class="text typed">{line()}</p>
            <Show when={!line().startsWith("!")}>
              <details class="expanded">
                <summary>{words.expanded}</summary>
                {content()}
              </details>
            </Show>
          </>
        )}
      </Show>
      <Show when={isQueued()}>
        <p class="fate">{words.queued}</p>
      </Show>
      <Show when={error()}>
        {(it) => (
          <p class="error" role="alert">
            {errorText(it())}
          </p>
        )}
      </Show>
    </article>
  )
}

function PartView(props: { session: string; message: string; id: string; isUser: boolean }) {
  // Text grows in place, so each change is passed on although the object is the same.
  const part = createMemo<Part | undefined>(
    () => {
      watch(`part ${props.id}`)
      return find(props.session, props.message)?.parts.find((entry) => entry.part.id === props.id)?.part
    },
    undefined,
    { equals: false },
  )
  const type = createMemo(() => part()?.type)
  const text = createMemo(() => part()?.text ?? "")
  const isWritten = createMemo(() => /\S/.test(text()))
  // The prompt that the step answers.
  const turn = () => {
    const info = find(props.session, props.message)?.info
    return info?.role === "assistant" ? info.parentID : props.message
  }
  const isHidden = () => part()?.synthetic === true || part()?.ignored === true
  return (
    <Switch>
      <Match when={isHidden()}>{null}</Match>
      <Match when={type() === "text" && props.isUser}>
        <p class="text">{text()}</p>
      </Match>
      <Match when={type() === "text" && isWritten()}>
        <Markdown text={text()} />
      </Match>
      <Match when={type() === "reasoning" && isWritten()}>
        <Reasoning part={part()!} text={text()} />
      </Match>
      <Match when={type() === "tool"}>
        <Tool part={part()!} />
      </Match>
      <Match when={type() === "file"}>
        <Show when={isPicture(part()?.url)} fallback={<p class="chip">📎 {oneLine(part()?.filename ?? part()?.mime ?? "")}</p>}>
          <img class="picture" src={part()!.url} alt={oneLine(part()?.filename ?? "")} />
        </Show>
      </Match>
      <Match when={type() === "agent"}>
        <p class="chip">@{oneLine(String(part()?.name ?? ""))}</p>
      </Match>
      <Match when={type() === "compaction"}>
        <p class="chip">{words.compaction}</p>
      </Match>
      <Match when={type() === "patch"}>
        <p class="chip">
          <a href={panelLink(props.session, "changes", { scope: "turn", turn: turn() })}>{words.changed(part()?.files?.length ?? 0)}</a>
        </p>
      </Match>
    </Switch>
  )
}

function Reasoning(props: { part: Part; text: string }) {
  const time = () => props.part.time
  const label = () => {
    const { start, end } = time() ?? {}
    return start !== undefined && end !== undefined ? `${words.thought} · ${duration(end - start)}` : words.thinking
  }
  return (
    <details
      class="reasoning"
      open={isUnfolded(props.part.id, false)}
      onToggle={(event) => setUnfolded(props.part.id, event.currentTarget.open, false)}
    >
      <summary>{label()}</summary>
      <Markdown text={props.text} />
    </details>
  )
}
