// The dialog that lies over the page, and the state of the find bar.

import { createSignal } from "solid-js"

export const [overlay, setOverlay] = createSignal<"palette" | "keys">()
export const [isFinding, setFinding] = createSignal(false)

let findField: HTMLInputElement | undefined
export const setFindField = (field: HTMLInputElement | undefined) => (findField = field)

// Moves the focus to the field of the find bar with its text selected. Returns false if there is none.
export function focusFind(): boolean {
  findField?.focus()
  findField?.select()
  return findField !== undefined
}

// The message that the transcript is asked to show.
export const [target, setTarget] = createSignal<{ session: string; message: string }>()

export const isTyping = (event: KeyboardEvent) =>
  event.target instanceof HTMLElement && (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.isContentEditable)
