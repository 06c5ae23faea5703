// The dialog that lies over the page, and the state of the find bar.

import { createSignal } from "solid-js"

export const [overlay, setOverlay] = createSignal<"palette" | "keys">()
export const [isFinding, setFinding] = createSignal(false)

// The message that the transcript is asked to show.
export const [target, setTarget] = createSignal<{ session: string; message: string }>()

export const isTyping = (event: KeyboardEvent) =>
  event.target instanceof HTMLElement && (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.isContentEditable)
