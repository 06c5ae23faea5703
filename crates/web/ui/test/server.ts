// A model of the server: a log of durable events, live deltas, stored messages, and the statement for a new connection.

import type { Frame, Message, Part, Session, Status } from "../src/core/wire.ts"
import { type dice, event } from "./support.ts"

type Dice = ReturnType<typeof dice>

interface Stored {
  info: Session
  status: Status
  messages: { info: Message; parts: Part[] }[]
  requests: Map<string, object>
  // Live text of open parts; the store has only what was last committed.
  live: Map<string, string>
}

export class Server {
  log: (Frame & { id: number })[] = []
  sessions = new Map<string, Stored>()
  // Some servers neither resume a stream nor repeat the text of open parts to a new connection.
  forgets: boolean
  deliver: (frame: Frame) => void = () => {}
  #dice: Dice
  #count = 0
  #time = 1_000

  constructor(dice: Dice) {
    this.#dice = dice
    this.forgets = dice.below(3) === 0
    this.#create("ses_a")
    this.#create("ses_b")
    this.#create("ses_c", "ses_a")
  }

  #create(id: string, parentID?: string) {
    const info: Session = { id, title: id, directory: "/p", parentID, time: { created: 1, updated: 1 } }
    this.sessions.set(id, { info, status: { type: "idle" }, messages: [], requests: new Map(), live: new Map() })
    this.#durable("session.created", { sessionID: id, info })
  }

  #durable(type: string, properties: object) {
    const frame = { id: this.log.length + 1, event: event(type, structuredClone(properties)) }
    this.log.push(frame)
    this.deliver(frame)
  }

  #id(prefix: string) {
    this.#count++
    // Ids do not sort by time.
    return `${prefix}_${this.#dice.below(1_000)}_${this.#count}`
  }

  // One random action on one random session.
  act() {
    const all = [...this.sessions.values()]
    const session = all[this.#dice.below(all.length)]
    if (!session) return
    const sessionID = session.info.id
    if (session.status.type === "idle") {
      const choice = this.#dice.below(20)
      if (choice === 0 && session.messages.length > 0) return this.#revert(session)
      if (choice === 1 && all.length > 1) return this.#delete(session)
      return this.#begin(session)
    }
    const message = session.messages.findLast(({ info }) => info.role === "assistant" && !info.time.completed)
    const open = message?.parts.filter((part) => session.live.has(part.id) || part.state?.status === "running") ?? []
    switch (this.#dice.below(10)) {
      case 0:
        return this.#step(session)
      case 1:
      case 2:
      case 3: {
        const part = open.find((part) => session.live.has(part.id))
        if (!part) return message ? this.#open(session, message) : this.#step(session)
        const delta = `${this.#dice.below(10)} `
        session.live.set(part.id, session.live.get(part.id) + delta)
        const properties = { sessionID, messageID: part.messageID, partID: part.id, field: "text", delta }
        return this.deliver({ event: event("message.part.delta", properties) })
      }
      case 4:
        return message ? this.#tool(session, message) : undefined
      case 5:
        return open[0] ? this.#close(session, open[0]) : undefined
      case 6: {
        const id = this.#id("per")
        const request = { id, sessionID, permission: "bash", patterns: [], always: [] }
        session.requests.set(id, request)
        return this.#durable("permission.asked", request)
      }
      case 7: {
        const id = session.requests.keys().next().value
        return id ? this.#answer(session, id) : undefined
      }
      case 8: {
        const isRetry = session.status.type === "retry"
        return this.#status(session, isRetry ? { type: "busy" } : { type: "retry", attempt: 1, message: "m", next: 9 })
      }
      default:
        return this.#finish(session)
    }
  }

  #status(session: Stored, status: Status) {
    session.status = status
    this.#durable("session.status", { sessionID: session.info.id, status })
  }

  #put(session: Stored, info: Message) {
    const known = session.messages.find((message) => message.info.id === info.id)
    if (known) known.info = info
    else session.messages.push({ info, parts: [] })
    this.#durable("message.updated", { sessionID: info.sessionID, info })
  }

  #part(session: Stored, part: Part) {
    const message = session.messages.find(({ info }) => info.id === part.messageID)!
    const at = message.parts.findIndex(({ id }) => id === part.id)
    if (at >= 0) message.parts[at] = part
    else message.parts.push(part)
    this.#durable("message.part.updated", { part })
  }

  #begin(session: Stored) {
    const sessionID = session.info.id
    const id = this.#id("msg")
    this.#put(session, { role: "user", id, sessionID, time: { created: ++this.#time } })
    this.#part(session, { id: this.#id("prt"), sessionID, messageID: id, type: "text", text: "go" })
    this.#status(session, { type: "busy" })
    this.#step(session)
  }

  #step(session: Stored) {
    this.#closeAll(session)
    const parentID = session.messages.findLast(({ info }) => info.role === "user")?.info.id ?? ""
    const id = this.#id("msg")
    const [sessionID, time] = [session.info.id, { created: ++this.#time }]
    this.#put(session, { role: "assistant", id, sessionID, parentID, time })
    this.#open(session, session.messages.at(-1)!)
  }

  #open(session: Stored, message: { info: Message }) {
    const id = this.#id("prt")
    session.live.set(id, "")
    const [sessionID, messageID] = [session.info.id, message.info.id]
    this.#part(session, { id, sessionID, messageID, type: "text", text: "", time: { start: this.#time } })
  }

  #tool(session: Stored, message: { info: Message }) {
    const part = { id: this.#id("prt"), sessionID: session.info.id, messageID: message.info.id, type: "tool" }
    this.#part(session, { ...part, tool: "bash", state: { status: "running", input: {} } })
  }

  #close(session: Stored, part: Part) {
    if (part.type === "tool") return this.#part(session, { ...part, state: { status: "completed", output: "ok" } })
    const text = session.live.get(part.id) ?? part.text
    session.live.delete(part.id)
    this.#part(session, { ...part, text, time: { ...part.time, end: ++this.#time } })
  }

  #closeAll(session: Stored) {
    for (const { info, parts } of session.messages) {
      for (const part of [...parts]) {
        if (session.live.has(part.id) || part.state?.status === "running") this.#close(session, part)
      }
      if (info.role === "assistant" && !info.time.completed) {
        this.#put(session, { ...info, time: { ...info.time, completed: ++this.#time } })
      }
    }
  }

  #answer(session: Stored, id: string) {
    session.requests.delete(id)
    this.#durable("permission.replied", { sessionID: session.info.id, requestID: id, reply: "once" })
  }

  #finish(session: Stored) {
    this.#closeAll(session)
    for (const id of [...session.requests.keys()]) this.#answer(session, id)
    this.#status(session, { type: "idle", reason: "completed" })
    this.#durable("session.idle", { sessionID: session.info.id })
  }

  #revert(session: Stored) {
    const { info, parts } = session.messages.at(-1)!
    const sessionID = session.info.id
    const last = parts.at(-1)
    if (last && parts.length > 1) {
      parts.pop()
      this.#durable("message.part.removed", { sessionID, messageID: info.id, partID: last.id })
    } else {
      session.messages.pop()
      this.#durable("message.removed", { sessionID, messageID: info.id })
    }
  }

  #delete(session: Stored) {
    this.sessions.delete(session.info.id)
    this.#durable("session.deleted", { sessionID: session.info.id, info: session.info })
  }

  // The frames with which a connection begins, after the missed events.
  statement(): Frame[] {
    const frames: Frame[] = []
    for (const { info, status, requests, messages, live } of this.sessions.values()) {
      if (status.type !== "idle") frames.push({ event: event("session.status", { sessionID: info.id, status }) })
      for (const request of requests.values()) frames.push({ event: event("permission.asked", request) })
      for (const part of messages.flatMap((message) => message.parts)) {
        const text = this.forgets ? undefined : live.get(part.id)
        if (text !== undefined) frames.push({ event: event("message.part.updated", { part: { ...part, text } }) })
      }
    }
    return frames
  }

  // Ends every turn.
  finish() {
    for (const session of this.sessions.values()) if (session.status.type !== "idle") this.#finish(session)
  }

  // The text of a part at this moment; nothing if it does not exist any more.
  text(sessionID: string, part: string): string | undefined {
    const session = this.sessions.get(sessionID)
    const stored = session?.messages.flatMap(({ parts }) => parts).find(({ id }) => id === part)
    return stored && (session?.live.get(part) ?? stored.text)
  }

  // Turns of a session that have ended.
  ends(sessionID: string) {
    const isEnd = ({ event }: Frame) => event.type === "session.idle" && event.properties.sessionID === sessionID
    return this.log.filter(isEnd).length
  }

  // The newest messages as a read returns them: open texts as they were last stored.
  read(sessionID: string) {
    return structuredClone(this.sessions.get(sessionID)?.messages ?? [])
  }

  list() {
    return structuredClone([...this.sessions.values()].map(({ info }) => info))
  }
}
