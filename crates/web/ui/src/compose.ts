// Puts text into a session's composer, for the parts of the page that make prompts.

import { type Attachment, addToDraft } from "./drafts.ts"

export async function compose(session: string, text: string, files: Attachment[] = []) {
  await addToDraft(session, text, files)
  document.querySelector<HTMLTextAreaElement>(".composer textarea")?.focus()
}
