// The end of the last turn: why it ended, what it took, and what is left to do.

import { Show, createMemo, createResource, createSignal } from "solid-js"
import { call } from "../api.ts"
import { endReason } from "../core/fold.ts"
import { isBusy } from "../core/state.ts"
import type { LastTurn } from "../core/wire.ts"
import { say } from "../sending.ts"
import { watch, world } from "../store.ts"
import { count, duration, words } from "../words.ts"

export function TurnEnd(props: { id: string }) {
  const busy = createMemo(() => (watch(`status ${props.id}`), isBusy(world, props.id)))
  const hasAnswer = createMemo(() => {
    watch(`messages ${props.id}`)
    return world.windows.get(props.id)?.entries.some((entry) => entry.info.role === "assistant") ?? false
  })
  // The turn is read when the session becomes idle, and when an idle session is opened.
  const [turn] = createResource(
    () => (busy() || !hasAnswer() ? null : { id: props.id, since: world.status.get(props.id)?.since ?? 0 }),
    ({ id }) => call("turn", { in: { sessionID: id } }).then(
      ({ data }) => data,
      () => undefined,
    ),
  )
  const last = () => (busy() || turn.state !== "ready" ? undefined : turn())
  // The prompt of the next turn takes the place of the end of the last one.
  const isNext = () => (watch(`queue ${props.id}`), world.waiting.has(props.id))
  const reason = () => (watch(`status ${props.id}`), busy() || isNext() ? null : (endReason(world, props.id) ?? last()?.end ?? null))
  const error = () => (watch(`status ${props.id}`), world.errors.get(props.id))
  return (
    <Show when={reason()}>
      {(it) => (
        <div class="end" data-reason={it()}>
          <p>
            <strong>{words.end(it())}</strong>
            <Show when={last()}>{(turn) => <span class="facts">{facts(turn())}</span>}</Show>
            <CopyAnswer text={last()?.answer ?? ""} />
          </p>
          <Show when={it() === "error"}>
            <Show when={error()}>{(message) => <p class="error">{message()}</p>}</Show>
            <p>
              <button type="button" onClick={() => say(props.id, words.retryPrompt)}>
                {words.tryAgain}
              </button>
            </p>
          </Show>
          <Left id={props.id} />
        </div>
      )}
    </Show>
  )
}

function facts(turn: LastTurn): string {
  const last = turn.messages.at(-1)?.info
  const first = turn.messages[0]?.info
  const completed = last?.role === "assistant" ? last.time.completed : undefined
  const { input, output, cache } = turn.tokens
  const ms = completed && first ? completed - first.time.created : 0
  return [
    ms >= 1_000 ? duration(ms) : "",
    words.stepCount(turn.steps),
    turn.tools.length > 0 ? words.toolCount(turn.tools.length) : "",
    words.steps(count(input + cache.read + cache.write), count(output)),
    turn.cost > 0 ? words.cost(turn.cost) : "",
  ]
    .filter(Boolean)
    .join(" · ")
}

function CopyAnswer(props: { text: string }) {
  const [isCopied, setCopied] = createSignal(false)
  const copy = async () => {
    await navigator.clipboard?.writeText(props.text)
    setCopied(true)
  }
  return (
    <Show when={props.text !== "" && navigator.clipboard}>
      <button type="button" class="quiet" onClick={() => void copy()}>
        {isCopied() ? words.copied : words.copyAnswer}
      </button>
    </Show>
  )
}

// Todos that the turn has left open, and the reason why it does not continue by itself.
function Left(props: { id: string }) {
  const left = () => (watch(`status ${props.id}`), watch(`session ${props.id}`), world.status.get(props.id)?.left ?? world.sessions.get(props.id)?.info.continuation?.stopped)
  const resume = async () => {
    await call("continuation", { in: { sessionID: props.id }, body: { action: "resume" } }).catch(() => {})
    say(props.id, words.continuePrompt)
  }
  return (
    <Show when={left()}>
      {(reason) => (
        <p class="left">
          {words.todosLeft(reason())}
          <button type="button" class="quiet" onClick={() => void resume()}>
            {words.goOn}
          </button>
        </p>
      )}
    </Show>
  )
}
