// Text of other programs, made safe to read: nothing invisible, nothing that reorders what surrounds it.

// Sequences that colour a terminal or move its cursor.
const ANSI = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/g
// Characters that reorder text or have no width.
const HIDDEN = /[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g

const code = (char: string) => `⟨U+${char.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`

// Shows hidden characters by their number, for commands, paths and addresses.
export const visible = (text: string) =>
  text.replace(CONTROL, (char) => (char === "\u007f" ? "␡" : String.fromCharCode(0x2400 + char.charCodeAt(0)))).replace(HIDDEN, code)

export const withoutAnsi = (text: string) => text.replace(/\r\n/g, "\n").replace(ANSI, "")

// One line, for titles and names.
export const oneLine = (text: string) => visible(text.replace(/\s+/g, " ").trim())

// A path below the session's directory, without that directory.
export const within = (path: string, directory: string | undefined) =>
  directory && path.startsWith(`${directory}/`) ? path.slice(directory.length + 1) : path

const SCHEMES = ["http:", "https:", "mailto:"]

// The address of a link, or nothing if it must not be one.
export function linkTarget(href: string): URL | undefined {
  try {
    const url = new URL(href)
    return SCHEMES.includes(url.protocol) ? url : undefined
  } catch {
    return undefined
  }
}

// The host of a link whose text names another one.
export function otherHost(text: string, url: URL): string | undefined {
  if (url.protocol === "mailto:") return undefined
  const named = /(?:https?:\/\/)?([\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+)/u.exec(text)?.[1]
  return named && named.toLowerCase() !== url.hostname ? url.hostname : undefined
}
