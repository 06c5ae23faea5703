// Texts that have not been sent, one for each session, kept in this browser.

const PREFIX = "baton draft "
// The most drafts; the oldest go first.
const MAX_DRAFTS = 200

interface Draft {
  text: string
  time: number
}

function read(key: string): Draft | undefined {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null") ?? undefined
  } catch {
    return undefined
  }
}

export const draft = (session: string) => read(PREFIX + session)?.text ?? ""

export function saveDraft(session: string, text: string) {
  const key = PREFIX + session
  try {
    if (text === "") localStorage.removeItem(key)
    else if (read(key)?.text !== text) localStorage.setItem(key, JSON.stringify({ text, time: Date.now() }))
    const all = Object.keys(localStorage).filter((name) => name.startsWith(PREFIX))
    if (all.length <= MAX_DRAFTS) return
    const oldest = all.sort((left, right) => (read(left)?.time ?? 0) - (read(right)?.time ?? 0))
    for (const name of oldest.slice(0, all.length - MAX_DRAFTS)) localStorage.removeItem(name)
  } catch {
    // A browser without storage keeps the text on the screen only.
  }
}
