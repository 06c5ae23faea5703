// A comment on lines of a diff, and the box in which it is written.

import { Show, createMemo, createSignal, onMount } from "solid-js"
import { messageId } from "../api.ts"
import { type Draft, type Entry, patchOf } from "../core/changes.ts"
import { place } from "../core/review.ts"
import { comments, dropComment, putComment } from "../reviews.ts"
import { words } from "../words.ts"

const range = (from: number, to: number) => (from === to ? words.changes.line(from) : words.changes.lines(`${from}–${to}`))

export function CommentCard(props: { session: string; id: string; entry: Entry; ref: (element: HTMLElement) => void }) {
  const comment = createMemo(() => comments(props.session).find((it) => it.id === props.id))
  const isChanged = () => {
    const it = comment()
    return it !== undefined && place(it, patchOf(props.entry)) === "changed"
  }
  return (
    <Show when={comment()}>
      {(it) => (
        <div class="comment-row" ref={props.ref}>
          <div class="comment">
            <header>
              {range(it().from, it().to)}
              <Show when={isChanged()}>
                <strong>{words.changes.changed}</strong>
              </Show>
              <span class="space" />
              <button type="button" class="quiet" onClick={() => dropComment(props.session, props.id)}>
                {words.changes.remove}
              </button>
            </header>
            <p>{it().text}</p>
          </div>
        </div>
      )}
    </Show>
  )
}

export function Editor(props: {
  session: string
  draft: Draft
  lines: () => string[]
  onClose: () => void
  ref: (element: HTMLElement) => void
}) {
  const [text, setText] = createSignal("")
  let box!: HTMLTextAreaElement
  onMount(() => box.focus({ preventScroll: true }))
  const save = () => {
    if (text().trim() === "") return
    const { file, side, from, to } = props.draft
    const time = Date.now()
    putComment(props.session, { id: messageId(time), file, side, from, to, lines: props.lines(), text: text().trim(), time })
    props.onClose()
  }
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.stopPropagation()
      props.onClose()
    }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault()
      save()
    }
  }
  return (
    <div class="comment-row" ref={props.ref}>
      <form
        class="comment"
        onSubmit={(event) => {
          event.preventDefault()
          save()
        }}
      >
        <header>{range(props.draft.from, props.draft.to)}</header>
        <textarea
          ref={box}
          rows="2"
          aria-label={words.changes.commentText}
          placeholder={words.changes.commentHint}
          onInput={(event) => setText(event.target.value)}
          on:keydown={keys}
        />
        <div class="buttons">
          <button class="primary">{words.changes.add}</button>
          <button type="button" onClick={props.onClose}>
            {words.cancel}
          </button>
        </div>
      </form>
    </div>
  )
}
