// The keys of this browser's user.

import { type Action, DEFAULT_KEYS, type Keys, chordOf, isTyped } from "./core/chords.ts"
import { stored } from "./kept.ts"
import { isTyping } from "./overlay.ts"
import { settings } from "./settings.ts"

const [changed, save] = stored<Partial<Keys>>("keys", {})

export const keys = (): Keys => ({ ...DEFAULT_KEYS, ...changed() })

// Without a key, the default returns.
export function setKey(action: Action, chord: string | undefined) {
  const { [action]: _, ...others } = changed()
  save(chord === undefined || chord === DEFAULT_KEYS[action] ? others : { ...others, [action]: chord })
}

export const isChanged = (action: Action) => changed()[action] !== undefined

// True if the event is the key of an action. A letter counts only outside of text, and only if letters are switched on.
export function isKey(event: KeyboardEvent, action: Action): boolean {
  const chord = keys()[action]
  if (event.isComposing || chordOf(event) !== chord) return false
  return !isTyped(chord) || (settings().hasLetterKeys && !isTyping(event))
}

const isMac = /^Mac|^iP/.test(navigator.platform)

// The names of a combination's keys, as they are printed on the keyboard.
export const keyNames = (chord: string) => chord.split("+").map((name) => (name === "Mod" ? (isMac ? "⌘" : "Ctrl") : name.length === 1 ? name.toLowerCase() : name))
export const keyText = (action: Action) => keyNames(keys()[action]).join("+")
