// Combinations of keys, written as `Mod+Shift+K`. `Mod` is Ctrl, or Command on a Mac.

export interface Pressed {
  key: string
  ctrlKey: boolean
  metaKey: boolean
  altKey: boolean
  shiftKey: boolean
}

// Actions with a key, by the part of the page in which the key works.
export const BINDINGS = {
  everywhere: { palette: "Mod+K", search: "Mod+Shift+F", create: "Mod+Shift+O", help: "?" },
  session: { find: "Mod+F", previousPrompt: "[", nextPrompt: "]" },
  requests: { once: "Y", always: "A", reject: "N" },
  changes: { nextFile: "J", previousFile: "K", nextHunk: "N", previousHunk: "P", comment: "C" },
} as const

export type Place = keyof typeof BINDINGS
export type Action = { [P in Place]: keyof (typeof BINDINGS)[P] }[Place]
export type Keys = Record<Action, string>

export const PLACES = Object.keys(BINDINGS) as Place[]
export const actionsOf = (place: Place) => Object.keys(BINDINGS[place]) as Action[]
export const DEFAULT_KEYS = Object.assign({}, ...Object.values(BINDINGS)) as Keys

export const ACTIONS = PLACES.flatMap(actionsOf)

const MODIFIERS = ["Control", "Meta", "Alt", "Shift", "AltGraph", "CapsLock"]

// The combination of a pressed key; nothing for a modifier alone.
export function chordOf({ key, ctrlKey, metaKey, altKey, shiftKey }: Pressed): string | undefined {
  if (MODIFIERS.includes(key) || key === "Dead" || key === "Unidentified") return undefined
  const name = key === " " ? "Space" : key === "+" ? "Plus" : key.length === 1 ? key.toUpperCase() : key
  // Shift makes another character of a sign, which already tells it.
  const isSign = name.length === 1 && name.toLowerCase() === name
  const parts = [ctrlKey || metaKey ? "Mod" : "", altKey ? "Alt" : "", shiftKey && !isSign ? "Shift" : "", name]
  return parts.filter(Boolean).join("+")
}

// True for a single character, which would be typed in a text field.
export const isTyped = (chord: string) => !/^(Mod|Alt)\+/.test(chord) && !/^(Shift\+)?F\d+$/.test(chord)

// Keys of text fields, dialogs and the browser, which cannot be given to an action.
const RESERVED = ["Escape", "Enter", "Shift+Enter", "Alt+Enter", "Tab", "Shift+Tab", "Space", "Mod+C", "Mod+V", "Mod+X", "Mod+A", "Mod+Z"]
export const isReserved = (chord: string) => RESERVED.includes(chord)

// The list of changes takes its keys before an open request does, so these two may share them.
const mayShare = (one: Place, two: Place) => one !== two && [one, two].every((place) => place === "requests" || place === "changes")

// Other actions with the same key in the same part of the page.
export function conflictsOf(keys: Keys, action: Action): Action[] {
  const placeOf = (it: Action) => PLACES.find((place) => actionsOf(place).includes(it))!
  return ACTIONS.filter((it) => it !== action && keys[it] === keys[action] && !mayShare(placeOf(it), placeOf(action)))
}
