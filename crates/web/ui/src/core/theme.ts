// The user's own theme: variables that were pasted as text. Only the names of the built-in themes are accepted, with
// colours or lengths as values, so that a pasted theme can neither load anything nor hide a part of the page.

export const COLOURS = [
  "back", "raised", "sunken", "line", "text", "muted", "accent", "on-accent", "tint", "good", "bad", "warn", "warn-tint",
  "add", "remove", "add-mark", "remove-mark", "hover",
] as const
export const LENGTHS = ["radius"] as const

// The most characters of a pasted theme.
export const MAX_THEME = 10_000

const HEX = /^#(?:[0-9a-f]{3}|[0-9a-f]{6})$/
const RGB = /^rgb\((?: *\d{1,3} *,){2} *\d{1,3} *\)$/
const HSL = /^hsl\( *\d{1,3} *, *\d{1,3}% *, *\d{1,3}% *\)$/
const LENGTH = /^(?:\d|1\d|2[0-4])(?:\.\d)?px$/
const PAIR = /^light-dark\((.+)\)$/

const isPlain = (value: string) => HEX.test(value) || RGB.test(value) || HSL.test(value)

// Two colours, separated by the comma outside of brackets.
function isPair(value: string): boolean {
  const inside = PAIR.exec(value)?.[1]
  const parts = inside?.split(/,(?![^(]*\))/).map((part) => part.trim())
  return parts?.length === 2 && parts.every(isPlain)
}

export interface Theme {
  variables: Record<string, string>
  // Lines that are not a variable of a theme, or whose value is not allowed.
  refused: string[]
}

export function parseTheme(pasted: string): Theme {
  const variables: Record<string, string> = {}
  const refused: string[] = []
  // Copied rules come with a selector and braces.
  const text = pasted.slice(0, MAX_THEME).replace(/\/\*.*?\*\//gs, "").replace(/[^{};]*\{|\}/g, ";")
  for (const line of text.split(";").map((it) => it.trim()).filter(Boolean)) {
    const [, name, raw] = /^--([a-z-]+)\s*:\s*([^]+)$/.exec(line) ?? []
    const value = raw?.trim().toLowerCase() ?? ""
    const isColour = COLOURS.some((it) => it === name) && (isPlain(value) || isPair(value))
    const isLength = LENGTHS.some((it) => it === name) && LENGTH.test(value)
    if (isColour || isLength) variables[`--${name}`] = value
    else refused.push(line)
  }
  return { variables, refused }
}
