// Puts text into a session's composer, for the parts of the page that make prompts.

import { addToDraft } from "./drafts.ts"

export async function compose(session: string, text: string) {
  await addToDraft(session, text)
  document.querySelector<HTMLTextAreaElement>(".composer textarea")?.focus()
}
