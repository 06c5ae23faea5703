// The question before a paste of several lines.

import { visible } from "../plain.ts"
import type { FrameWords } from "./messages.ts"

// The most characters of a paste that the question shows.
const MAX_SHOWN = 5_000

function element<K extends keyof HTMLElementTagNameMap>(name: K, text: string): HTMLElementTagNameMap[K] {
  const made = document.createElement(name)
  made.textContent = text
  return made
}

// Shows the text and resolves with the user's decision.
export function confirmPaste(text: string, words: FrameWords): Promise<boolean> {
  const dialog = document.createElement("dialog")
  const lines = text.replace(/\r\n?/g, "\n").slice(0, MAX_SHOWN).split("\n").map(visible)
  const shown = element("pre", lines.join("\n"))
  shown.tabIndex = 0
  const [paste, cancel] = [element("button", words.paste), element("button", words.cancel)]
  const buttons = document.createElement("p")
  buttons.append(paste, cancel)
  dialog.append(element("h2", words.pasteTitle), element("p", words.pasteText), shown, buttons)
  dialog.setAttribute("aria-label", words.pasteTitle)
  document.body.append(dialog)
  return new Promise((resolve) => {
    paste.onclick = () => dialog.close("paste")
    cancel.onclick = () => dialog.close()
    dialog.onclose = () => {
      dialog.remove()
      resolve(dialog.returnValue === "paste")
    }
    dialog.showModal()
    cancel.focus()
  })
}
