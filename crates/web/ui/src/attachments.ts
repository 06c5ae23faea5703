// Files that the user adds to a prompt, within the limits of the server.

import type { Attachment } from "./drafts.ts"

// The server's limits, see docs/limits.md.
export const MAX_FILE_BYTES = 5 * 1024 * 1024
export const MAX_TOTAL_BYTES = 20 * 1024 * 1024
export const MAX_FILES = 100
// A pasted text of more lines becomes a file.
export const MAX_PASTED_LINES = 200

// Pictures that the page shows; every other file is a name.
const PICTURE = /^data:image\/(?:png|jpeg|gif|webp|avif);base64,/

export const isPicture = (url: string | undefined) => url !== undefined && url.length <= MAX_FILE_BYTES * 1.4 && PICTURE.test(url)

export type Refusal = { name: string; why: "size" | "total" | "count" | "unreadable" }

// Reads files in addition to those that are there, and names those that the server would refuse.
export async function readFiles(added: File[], present: Attachment[]): Promise<{ files: Attachment[]; refused: Refusal[] }> {
  const files: Attachment[] = []
  const refused: Refusal[] = []
  let total = present.reduce((sum, file) => sum + file.url.length, 0)
  for (const file of added) {
    const refuse = (why: Refusal["why"]) => refused.push({ name: file.name, why })
    if (present.length + files.length >= MAX_FILES) {
      refuse("count")
      continue
    }
    // Base64 makes four characters of three bytes.
    if ((file.size * 4) / 3 > MAX_FILE_BYTES) {
      refuse("size")
      continue
    }
    const url = await dataAddress(file).catch(() => undefined)
    if (url === undefined) refuse("unreadable")
    else if (total + url.length > MAX_TOTAL_BYTES) refuse("total")
    else {
      total += url.length
      files.push({ name: file.name || "file", mime: file.type || "text/plain", url })
    }
  }
  return { files, refused }
}

const dataAddress = (file: File) =>
  new Promise<string>((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve((reader.result as string).replace(/^data:;/, "data:text/plain;"))
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(file)
  })

export const pastedText = (text: string) => new File([text], "pasted.txt", { type: "text/plain" })
