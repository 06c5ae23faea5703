// Shared by the tests: seeded randomness, events, and folding.

import { type Input, fold } from "../src/core/fold.ts"
import type { Frame, WireEvent } from "../src/core/wire.ts"
import { type World, createWorld } from "../src/core/world.ts"

// A small generator with a seed (mulberry32), so that a failure can be repeated.
export function dice(seed: number) {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
  return { next, below: (limit: number) => Math.floor(next() * limit) }
}

export const event = (type: string, properties: object): WireEvent => ({ type, properties })

export function run(inputs: Input[], world: World = createWorld()): World {
  for (const input of inputs) fold(world, input)
  return world
}

// The input of a frame. Frames are cloned, because two worlds must not share objects.
export const frame = (frame: Frame): Input => ({ kind: "frame", ...structuredClone(frame) })
