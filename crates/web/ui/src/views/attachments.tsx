// Files of a prompt: thumbnails in the composer, the button that adds them, and the draft that another tab has replaced.

import { For, Show } from "solid-js"
import { type Refusal, isPicture } from "../attachments.ts"
import type { Attachment, Content } from "../drafts.ts"
import { oneLine } from "../plain.ts"
import { words } from "../words.ts"

export function Attachments(props: { files: Attachment[]; refused: Refusal[]; onRemove: (at: number) => void }) {
  return (
    <>
      <Show when={props.files.length > 0}>
        <ul class="attachments" aria-label={words.attachments}>
          <For each={props.files}>
            {(file, at) => (
              <li>
                <Show when={isPicture(file.url)} fallback={<span class="file" aria-hidden="true" />}>
                  <img src={file.url} alt="" />
                </Show>
                <span class="name">{oneLine(file.name)}</span>
                <button type="button" class="quiet" aria-label={words.removeFile(oneLine(file.name))} onClick={() => props.onRemove(at())}>
                  ×
                </button>
              </li>
            )}
          </For>
        </ul>
      </Show>
      <For each={props.refused}>
        {({ name, why }) => (
          <p class="error" role="alert">
            {words.refusedFile(oneLine(name), why)}
          </p>
        )}
      </For>
    </>
  )
}

export function AttachButton(props: { onFiles: (files: File[]) => void }) {
  let input!: HTMLInputElement
  return (
    <>
      <button type="button" class="icon" aria-label={words.attach} title={words.attach} onClick={() => input.click()}>
        <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
          <path
            d="M13 7.2 7.8 12.4a3 3 0 0 1-4.3-4.3l5.6-5.5a2 2 0 0 1 2.8 2.8L6.4 11a.9.9 0 0 1-1.3-1.3l4.7-4.8"
            fill="none"
            stroke="currentColor"
            stroke-width="1.3"
            stroke-linecap="round"
            stroke-linejoin="round"
          />
        </svg>
      </button>
      <input
        ref={input}
        class="hidden"
        type="file"
        multiple
        tabindex="-1"
        aria-label={words.attach}
        onChange={() => {
          props.onFiles([...(input.files ?? [])])
          input.value = ""
        }}
      />
    </>
  )
}

export function Earlier(props: { earlier?: Content; onTake: (content: Content) => void; onDiscard: () => void }) {
  return (
    <Show when={props.earlier}>
      {(earlier) => (
        <p class="earlier">
          <span class="name">{words.earlierDraft(oneLine(earlier().text).slice(0, 80))}</span>
          <button type="button" class="quiet" onClick={() => props.onTake(earlier())}>
            {words.restore}
          </button>
          <button type="button" class="quiet" onClick={() => props.onDiscard()}>
            {words.discard}
          </button>
        </p>
      )}
    </Show>
  )
}
