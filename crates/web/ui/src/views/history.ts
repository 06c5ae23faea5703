// The user's own prompts, brought back with the arrow keys in an empty box.

import { history } from "../core/complete.ts"
import { world } from "../store.ts"

export function createHistory(session: string, text: () => string, show: (text: string) => void) {
  let [texts, at]: [string[], number] = [[], -1]
  const step = (by: number) => {
    if (at < 0) texts = history(world, session)
    const next = Math.max(-1, Math.min(at + by, texts.length - 1))
    if (next === at) return
    at = next
    show(texts[at] ?? "")
  }
  return {
    reset: () => (at = -1),
    // Returns true if the key was meant for the history.
    keys(event: KeyboardEvent): boolean {
      if (event.isComposing || event.shiftKey || event.altKey || event.ctrlKey || event.metaKey) return false
      const isUp = event.key === "ArrowUp" && (text() === "" || at >= 0)
      const isDown = event.key === "ArrowDown" && at >= 0
      if (!isUp && !isDown) return false
      event.preventDefault()
      step(isUp ? 1 : -1)
      return true
    },
  }
}
