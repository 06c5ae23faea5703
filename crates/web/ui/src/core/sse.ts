// Decodes a stream of server-sent events. A chunk may end anywhere, also in the middle of a character.

import type { Frame } from "./wire.ts"

// The largest frame; a longer one means that the peer is not an event stream.
const MAX_FRAME = 32 * 1024 * 1024

export class Decoder {
  #text = new TextDecoder()
  #rest = ""
  #data: string[] = []
  #id: number | undefined
  unreadable = 0

  // Returns the frames that a chunk completes.
  push(chunk: Uint8Array): Frame[] {
    this.#rest += this.#text.decode(chunk, { stream: true })
    if (this.#rest.length > MAX_FRAME) throw new Error("a frame of the event stream is too long")
    const frames: Frame[] = []
    // A carriage return at the end may be the first half of a line break.
    const lines = this.#rest.split(/\r\n|\n|\r(?!$)/)
    this.#rest = lines.pop() ?? ""
    for (const line of lines) {
      if (line !== "") this.#field(line)
      else {
        const frame = this.#finish()
        if (frame) frames.push(frame)
      }
    }
    return frames
  }

  #field(line: string) {
    const colon = line.indexOf(":")
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "")
    if (name === "data") this.#data.push(value)
    if (name === "id" && /^\d+$/.test(value)) this.#id = Number(value)
  }

  #finish(): Frame | undefined {
    const [data, id] = [this.#data.join("\n"), this.#id]
    this.#data = []
    this.#id = undefined
    if (data === "") return undefined
    try {
      const { directory, payload } = JSON.parse(data)
      if (typeof payload?.type !== "string") throw new Error("not an event")
      return { id, directory, event: { type: payload.type, properties: payload.properties ?? {} } }
    } catch {
      this.unreadable++
      return undefined
    }
  }
}

// Joins neighbouring deltas of one part, so that a burst costs one change.
export function join(frames: Frame[]): Frame[] {
  const joined: Frame[] = []
  for (const frame of frames) {
    const last = joined.at(-1)
    const [before, now] = [last?.event.properties, frame.event.properties]
    if (
      frame.id === undefined &&
      last?.id === undefined &&
      frame.event.type === "message.part.delta" &&
      last?.event.type === "message.part.delta" &&
      before.partID === now.partID &&
      before.field === now.field
    ) {
      const properties = { ...before, delta: before.delta + now.delta }
      joined[joined.length - 1] = { ...last, event: { type: last.event.type, properties } }
    } else joined.push(frame)
  }
  return joined
}
