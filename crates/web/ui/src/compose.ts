// Text that another part of the page puts into a session's composer.

import { createSignal } from "solid-js"

const [offered, setOffered] = createSignal<{ session: string; text: string } | null>(null)

export const compose = (session: string, text: string) => setOffered({ session, text })

// Takes the text that waits for a session's composer.
export function taken(session: string): string | undefined {
  const it = offered()
  if (it?.session !== session) return undefined
  setOffered(null)
  return it.text
}
