// Plays recorded frames into a fresh world, to see what each of them changes.

import { fold } from "./fold.ts"
import { requestsOf, snapshot, statusOf } from "./state.ts"
import type { Frame, Status } from "./wire.ts"
import { createWorld } from "./world.ts"

export interface Scene {
  status: Status
  requests: number
  messages: number
  // The end of the newest text.
  text: string
  // Frames that changed something.
  effective: number
  unreadable: number
  state: unknown
}

const MAX_TEXT = 300

// The world knows nothing from before the first frame: statuses are idle and texts begin where the frames do.
export function replay(frames: Frame[], session: string): Scene {
  const world = createWorld()
  fold(world, { kind: "opened", resumed: true })
  fold(world, { kind: "show", session })
  let effective = 0
  for (const frame of frames) if (fold(world, { kind: "frame", ...frame }).size > 0) effective++
  const entries = world.windows.get(session)?.entries ?? []
  const texts = entries.flatMap(({ parts }) => parts.map(({ part }) => (part.type === "text" ? String(part.text ?? "") : "")))
  return {
    status: statusOf(world, session),
    requests: requestsOf(world, session).length,
    messages: entries.length,
    text: texts.findLast((text) => text !== "")?.slice(-MAX_TEXT) ?? "",
    effective,
    unreadable: world.counts.unreadable,
    state: snapshot(world),
  }
}
