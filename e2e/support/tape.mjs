// A record of an event stream, in order, with functions that wait for further events.

import { within } from "./wait.mjs"

const GUARD_MS = 20_000

export class Tape {
  // Frames as `{ event, id }`; `id` is the frame's own, which only durable events have.
  frames = []
  #watchers = new Set()

  get events() {
    return this.frames.map((frame) => frame.event)
  }

  push(event, id) {
    this.frames.push({ event, id })
    for (const watcher of [...this.#watchers]) watcher()
  }

  // The first event, from the `from`-th on, that fulfils `predicate`.
  async until(predicate, what, { from = 0, ms = GUARD_MS } = {}) {
    let next = from
    const found = new Promise((resolve, reject) => {
      const look = () => {
        try {
          for (; next < this.frames.length; next += 1) {
            if (predicate(this.frames[next].event)) {
              this.#watchers.delete(look)
              resolve(this.frames[next].event)
              return
            }
          }
        } catch (error) {
          this.#watchers.delete(look)
          reject(error)
        }
      }
      this.#watchers.add(look)
      look()
    })
    return within(ms, found, what ?? String(predicate), () => `seen: ${story(this.events.slice(-60)).join(" · ")}`)
  }

  // Every event as it arrives, until the caller stops.
  async *follow({ ms = GUARD_MS } = {}) {
    for (let next = 0; ; next += 1) yield await this.until(() => true, "another event", { from: next, ms })
  }

  // The first event of this type, of this session if one is given.
  type(type, session, options) {
    const matches = (event) => event.type === type && (!session || sessionOf(event) === session)
    return this.until(matches, `${type} of ${session ?? "any session"}`, options)
  }

  // The `count`-th idle of a session.
  idle(session, count = 1, options) {
    let seen = 0
    const isLast = (event) => event.type === "session.idle" && sessionOf(event) === session && ++seen === count
    return this.until(isLast, `idle number ${count} of ${session}`, options)
  }

  // Events of one session.
  of(session) {
    return this.events.filter((event) => sessionOf(event) === session)
  }

  // Durable frames only.
  get durable() {
    return this.frames.filter((frame) => frame.id !== undefined)
  }

  get cursor() {
    return this.durable.at(-1)?.id
  }
}

export function sessionOf(event) {
  const { sessionID, info, part } = event.properties ?? {}
  return sessionID ?? info?.sessionID ?? part?.sessionID
}

// Events in a few words each, as in `USER · text · BUSY · assistant[-] · …`.
export function story(events) {
  const roles = new Map()
  return events.map((event) => word(event, roles))
}

function word({ type, properties: it = {} }, roles) {
  switch (type) {
    case "message.updated": {
      roles.set(it.info.id, it.info.role)
      if (it.info.role === "user") return "USER"
      const facts = [it.info.finish ?? "-", it.info.time.completed && "done", it.info.error && it.info.error.name]
      return `assistant[${facts.filter(Boolean).join(",")}]`
    }
    case "message.part.updated": {
      const { part } = it
      if (part.type === "tool") return `${part.tool}:${part.state.status}`
      if (part.type === "step-finish") return `step-finish(${part.reason})`
      if (roles.get(part.messageID) === "user") return `${part.type}(user)`
      return part.time && part.type !== "retry" ? `${part.type}${part.time.end ? "+end" : "+start"}` : part.type
    }
    case "message.part.delta":
      return "delta"
    case "session.status": {
      const { status } = it
      if (status.type === "retry") return `RETRY${status.attempt}`
      return status.type === "idle" && status.reason ? `IDLE(${status.reason})` : status.type.toUpperCase()
    }
    case "session.error":
      return `ERROR(${it.error?.name})`
    case "prompt.ended":
      return `prompt.ended(${it.reason})`
    default:
      return type
  }
}

// Complete idle pairs (`session.status` idle, right after it `session.idle`) by session.
export function idlePairs(events) {
  const pairs = new Map()
  const half = new Set()
  for (const event of events) {
    const session = sessionOf(event)
    if (event.type === "session.status" && event.properties.status.type === "idle") {
      half.add(session)
    } else if (event.type === "session.idle" && half.delete(session)) {
      pairs.set(session, (pairs.get(session) ?? 0) + 1)
    }
  }
  return pairs
}
