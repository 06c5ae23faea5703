// A part of the page in a file of its own, which is requested when it is first shown.

import { type Component, lazy } from "solid-js"

// Pause before a file that could not be loaded is requested again. Nothing is shown in its place meanwhile.
const PAUSE_MS = 3_000

// A bad network must not replace the screen by an error because a part of it could not be loaded.
export function part<P extends Record<string, any>>(load: () => Promise<Component<P>>) {
  const attempt = (): Promise<{ default: Component<P> }> =>
    load().then(
      (it) => ({ default: it }),
      () => new Promise<void>((go) => setTimeout(go, PAUSE_MS)).then(attempt),
    )
  return lazy(attempt)
}
