// The latest frames of the stream, for the events drawer.

import type { Frame } from "./wire.ts"

export interface Recorded {
  // Position in the recording; it only grows.
  at: number
  time: number
  frame: Frame
}

// The most frames that are kept; the oldest go first.
export const MAX_FRAMES = 2_000
// A longer frame is kept without its properties.
const MAX_CHARACTERS = 20_000

export class Recorder {
  private frames: Recorded[] = []
  private count = 0

  add(frames: Frame[], time: number) {
    for (const frame of frames) this.frames.push({ at: this.count++, time, frame: short(frame) })
    if (this.frames.length > MAX_FRAMES) this.frames.splice(0, this.frames.length - MAX_FRAMES)
  }

  get total() {
    return this.count
  }

  // Frames that match, oldest first.
  list({ session, type }: { session?: string; type?: string } = {}): Recorded[] {
    return this.frames.filter(
      ({ frame }) =>
        (!session || sessionOf(frame) === session) && (!type || frame.event.type.toLowerCase().includes(type.toLowerCase())),
    )
  }
}

// The session of a frame, wherever its type puts it.
export function sessionOf({ event }: Frame): string | undefined {
  const it = event.properties ?? {}
  const found = it.sessionID ?? it.info?.sessionID ?? it.part?.sessionID ?? (event.type.startsWith("session.") ? it.info?.id : undefined)
  return typeof found === "string" ? found : undefined
}

// The text of large parts is in the transcript; the recording keeps their place only.
function short(frame: Frame): Frame {
  const { part } = frame.event.properties ?? {}
  const length = (part?.text?.length ?? 0) + (part?.state?.output?.length ?? 0)
  if (length <= MAX_CHARACTERS) return frame
  const { text: _, state: __, ...rest } = part
  return { ...frame, event: { ...frame.event, properties: { part: { ...rest, characters: length } } } }
}
