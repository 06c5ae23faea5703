// Letters that are typed after the key that opens a field and before the field exists, because its code is being loaded.
// Without this they would reach the composer.

// A field that has not appeared by then is not awaited any more.
const MOST_MS = 5_000

let held = ""
let release: (() => void) | undefined

// Keeps letters from now on. `Escape` ends this and calls `cancel`.
export function holdKeys(cancel: () => void) {
  release?.()
  held = ""
  const keep = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
    if (event.key === "Escape") {
      release?.()
      cancel()
    } else if (event.key === "Backspace") held = held.slice(0, -1)
    else if ([...event.key].length === 1) held += event.key
    // Enter must not send a prompt.
    else if (event.key !== "Enter") return
    event.preventDefault()
    event.stopImmediatePropagation()
  }
  window.addEventListener("keydown", keep, { capture: true })
  const timer = setTimeout(() => release?.(), MOST_MS)
  release = () => {
    window.removeEventListener("keydown", keep, { capture: true })
    clearTimeout(timer)
    release = undefined
  }
}

// Moves the focus to the field, and puts the letters that were kept into it.
export function takeKeys(field: HTMLInputElement | HTMLTextAreaElement) {
  const isHeld = release !== undefined
  release?.()
  field.focus()
  if (!isHeld || held === "") return
  field.value += held
  field.dispatchEvent(new InputEvent("input", { bubbles: true }))
}
