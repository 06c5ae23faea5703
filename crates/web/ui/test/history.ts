// A long-lived client of the model server, with lost connections, repeated events and late reads; and a fresh one.

import type * as Fold from "../src/core/fold.ts"
import type * as State from "../src/core/state.ts"
import type { Frame } from "../src/core/wire.ts"
import type * as Worlds from "../src/core/world.ts"
import { Server } from "./server.ts"
import { dice } from "./support.ts"

export interface Core {
  fold: typeof Fold.fold
  snapshot: typeof State.snapshot
  createWorld: typeof Worlds.createWorld
}

const VISIBLE = "ses_a"
const ACTIONS = 60
const covers = { since: 0, rootsOnly: false }

// Plays one generated history and returns what the two clients see, and what was wrong on the way.
export function play(core: Core, seed: number) {
  const random = dice(seed)
  const server = new Server(random)
  const world = core.createWorld()
  const statuses = new Map<string, string[]>()
  const reads: { due: number; deliver: () => void }[] = []
  let isConnected = false
  let time = 0

  const problems: string[] = []
  const give = (input: Fold.Input) => {
    core.fold(world, input)
    // A text with a hole would show words that the model never wrote.
    for (const { part } of world.windows.get(VISIBLE)?.entries.flatMap((entry) => entry.parts) ?? []) {
      const said = server.text(VISIBLE, part.id)
      if (said !== undefined && part.type === "text" && !said.startsWith(part.text ?? "") && problems.length < 3) {
        problems.push(`part ${part.id} reads "${part.text}" instead of "${said}"`)
      }
    }
    for (const [session, { status }] of world.status) {
      const seen = statuses.get(session) ?? []
      if (seen.at(-1) !== status.type) seen.push(status.type)
      statuses.set(session, seen)
    }
  }
  const frame = (frame: Frame) => give({ kind: "frame", ...structuredClone(frame) })
  server.deliver = (it) => isConnected && frame(it)

  const connect = (loses: boolean) => {
    isConnected = true
    const cursor = loses || server.forgets ? null : world.cursor
    give({ kind: "opened", resumed: cursor !== null })
    if (cursor !== null) {
      // A server may repeat events that the client has seen.
      const from = Math.max(0, cursor - random.below(30))
      for (const missed of server.log.slice(from)) frame(missed)
    }
    for (const said of server.statement()) frame(said)
    give({ kind: "settled" })
    if (cursor === null) list()
  }
  const list = () => {
    const [began, sessions] = [world.tick, server.list()]
    reads.push({ due: time + random.below(12), deliver: () => give({ kind: "sessions", began, sessions, covers }) })
  }
  const load = () => {
    const window = world.windows.get(VISIBLE)
    if (!window || (!window.stale && world.wanted.size === 0)) return
    const [began, messages] = [world.tick, server.read(VISIBLE)]
    const read = { sessionID: VISIBLE, messages, older: null, range: "newest" as const }
    reads.push({ due: time + random.below(12), deliver: () => give({ kind: "messages", began, read }) })
  }
  const flush = (all: boolean) => {
    for (const read of reads.splice(0)) {
      if (all || read.due <= time) read.deliver()
      else reads.push(read)
    }
  }

  give({ kind: "show", session: VISIBLE })
  for (time = 0; time < ACTIONS; time++) {
    if (isConnected && random.below(15) === 0) isConnected = false
    else if (!isConnected && random.below(3) === 0) connect(random.below(4) === 0)
    server.act()
    if (random.below(3) === 0) load()
    flush(false)
  }
  if (!isConnected) connect(false)
  if (server.forgets) server.finish()
  for (let round = 0; round < 3; round++) {
    flush(true)
    load()
  }
  flush(true)

  for (const [session, story] of statuses) {
    const shown = story.join(" ").split(/(?<=busy|retry) idle/).length - 1
    if (shown > server.ends(session)) problems.push(`${session} has ended ${shown} times: ${story.join(" ")}`)
  }
  const shown = world.windows.get(VISIBLE)?.entries.map((entry) => entry.info.id) ?? []
  const stored = server.read(VISIBLE).map(({ info }) => info.id)
  if (shown.join() !== stored.join()) problems.push(`messages in the order ${shown.join()}`)
  const fresh = core.createWorld()
  core.fold(fresh, { kind: "show", session: VISIBLE })
  core.fold(fresh, { kind: "opened", resumed: false })
  for (const said of server.statement()) core.fold(fresh, { kind: "frame", ...structuredClone(said) })
  core.fold(fresh, { kind: "settled" })
  core.fold(fresh, { kind: "sessions", began: fresh.tick, sessions: server.list() })
  const read = { sessionID: VISIBLE, messages: server.read(VISIBLE), older: null, range: "newest" as const }
  core.fold(fresh, { kind: "messages", began: fresh.tick, read })
  return { seen: core.snapshot(world), fresh: core.snapshot(fresh), problems, world }
}
