// Every difference between OpenCode and Baton that is allowed, with its reason. `docs/compatibility.md` shows this list.
//
// A difference has functions that remove it from one side before the two are compared: `events` of both streams, or
// `global` of `/global/event` only; `messages` as `GET /session/{id}/message` answers, `session` as `GET /session/{id}`
// does. A difference that removes nothing any more fails the test, unless it depends on a race (`sometimes`).

const status = (event) => (event.type === "session.status" ? event.properties.status.type : undefined)
const isIdle = (event) => status(event) === "idle" || event.type === "session.idle"
const isPrompt = (event) => event.type === "message.updated" && event.properties.info.role === "user"
const part = (event) => (event.type === "message.part.updated" ? event.properties.part : undefined)
const isTool = (event, state) => part(event)?.type === "tool" && (!state || part(event).state.status === state)
const callOf = (event) => (isTool(event) ? part(event).callID : event.properties.tool?.callID)
const without = (object, ...names) =>
  Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)))

// Removes a property from the events of some types.
const leaveOut =
  (name, ...types) =>
  (events) =>
    events.map((event) =>
      types.includes(event.type) ? { ...event, properties: without(event.properties, name) } : event,
    )

// The same change to every part, in the stream and in the record.
const eachPart = (change) => ({
  events: (events) =>
    events.map((event) =>
      part(event) ? { ...event, properties: { ...event.properties, part: change(part(event)) } } : event,
    ),
  messages: (messages) => messages.map((message) => ({ ...message, parts: message.parts.map(change) })),
})

// The same change to every message, in the stream and in the record.
const eachInfo = (change) => ({
  events: (events) =>
    events.map((event) =>
      event.type === "message.updated"
        ? { ...event, properties: { ...event.properties, info: change(event.properties.info) } }
        : event,
    ),
  messages: (messages) => messages.map((message) => ({ ...message, info: change(message.info) })),
})

// Moves events: each to the place right after the last event that `anchor` chooses for it.
function moved(events, chosen, anchor) {
  const rest = events.filter((event) => !chosen(event))
  for (const event of events.filter(chosen)) {
    const at = rest.findLastIndex((other) => anchor(other, event))
    rest.splice(at < 0 ? rest.length : at + 1, 0, event)
  }
  return rest
}

export const differences = [
  {
    id: "busy-once",
    on: "opencode",
    opencode: "busy is sent twice per model call and once more before idle",
    baton: "busy is sent once, and again after a retry",
    reason: "busy is a state: a repetition carries no information",
    events: (events) => {
      let last
      return events.filter((event) => {
        const now = status(event)
        const again = now === "busy" && last === "busy"
        last = now ?? last
        return !again
      })
    },
  },
  {
    id: "log-frames",
    on: "opencode",
    opencode: "`/global/event` sends every stored event a second time, as a `sync` frame",
    baton: "once",
    reason: "only OpenCode's own replicator reads them; `/sync/history` has them",
    global: (frames) => frames.filter(({ type }) => type !== "sync"),
  },
  {
    id: "idle-once",
    on: "opencode",
    opencode: "a turn that fails or is aborted sends idle twice, the first time before it is closed",
    baton: "sends idle once, after everything is closed",
    reason: "idle must mean that the turn is over",
    events: (events) =>
      events.filter((event, at) => {
        if (!isIdle(event)) return true
        const later = events.slice(at + 1)
        const busy = later.findIndex((other) => status(other) === "busy")
        const sameTurn = busy < 0 ? later : later.slice(0, busy)
        return !sameTurn.some((other) => other.type === event.type && isIdle(other))
      }),
  },
  {
    id: "error-last",
    on: "opencode",
    opencode: "`session.error` comes before the parts and the message are closed",
    baton: "after, right before idle",
    reason: "a client that reacts to the error finds the complete record",
    events: (events) => {
      const error = events.filter((event) => event.type === "session.error")
      const rest = events.filter((event) => event.type !== "session.error")
      const idle = rest.findLastIndex((event) => status(event) === "idle")
      // Only the last turn of a scene can fail.
      return error.length ? [...rest.slice(0, idle), ...error, ...rest.slice(idle)] : events
    },
  },
  {
    id: "background-summary",
    on: "both",
    opencode: "`session.updated`, an empty `session.diff` and the prompt's `message.updated` come from a background task, at any time, also after idle",
    baton: "`session.updated` when the session changed, nothing after idle",
    reason: "no event of a turn may follow its idle; the comparison of the records covers the content of these events",
    events: (events) => {
      const first = events.findIndex(isPrompt)
      const isNoise = ({ type }) => type === "session.updated" || type === "session.diff"
      return events.filter((event, at) => !isNoise(event) && !(isPrompt(event) && at !== first))
    },
  },
  {
    id: "message-twice",
    on: "opencode",
    opencode: "a filtered answer is closed twice with the same content",
    baton: "once",
    reason: "the second event carries no information",
    events: (events) =>
      events.filter((event, at) => {
        const before = events[at - 1]
        return event.type !== "message.updated" || JSON.stringify(event) !== JSON.stringify(before)
      }),
  },
  {
    id: "prompt-events",
    on: "baton",
    opencode: "no event reports the progress of a prompt",
    baton: "`prompt.queued`, `prompt.started` and `prompt.ended`",
    reason: "an addition that old clients ignore",
    events: (events) => events.filter((event) => !event.type.startsWith("prompt.")),
  },
  {
    id: "delta-offset",
    on: "baton",
    opencode: "a delta has no position",
    baton: "`message.part.delta` carries `offset`",
    reason: "an addition that old clients ignore",
    events: leaveOut("offset", "message.part.delta"),
  },
  {
    id: "request-deadline",
    on: "baton",
    opencode: "a permission request or question has no deadline",
    baton: "both carry `deadline`",
    reason: "an addition that old clients ignore",
    events: leaveOut("deadline", "permission.asked", "question.asked"),
  },
  {
    id: "answer-origin",
    on: "baton",
    opencode: "an answer to a permission request or question has no origin",
    baton: "`permission.replied`, `question.replied` and `question.rejected` carry `by`",
    reason: "an addition that old clients ignore",
    events: leaveOut("by", "permission.replied", "question.replied", "question.rejected"),
  },
  {
    id: "idle-reason",
    on: "baton",
    opencode: "idle has no reason",
    baton: "idle carries `reason`",
    reason: "an addition that old clients ignore",
    events: (events) =>
      events.map((event) =>
        status(event) === "idle"
          ? { ...event, properties: { ...event.properties, status: { type: "idle" } } }
          : event,
      ),
  },
  {
    id: "text-ends",
    on: "opencode",
    opencode: "with chat completions, text that is followed by a tool call ends after the call began",
    baton: "text ends when something else begins, with every provider",
    reason: "OpenCode itself does so with other providers",
    events: (events) =>
      moved(
        events,
        (event) => part(event)?.type === "text" && part(event).time?.end !== undefined,
        (other, event) => other.properties.partID === part(event).id || part(other)?.id === part(event).id,
      ),
  },
  {
    id: "tool-progress",
    on: "both",
    opencode: "a running tool is sent again whenever its output or title grows",
    baton: "sent again at intervals, if it has changed",
    reason: "the progress of a running tool depends on timing; the comparison covers its end",
    events: (events) => {
      const seen = new Set()
      const kept = events.filter((event) => {
        if (!isTool(event, "running")) return true
        return !seen.has(callOf(event)) && seen.add(callOf(event))
      })
      return kept.map((event) => {
        if (!isTool(event, "running")) return event
        const state = without(part(event).state, "metadata", "title")
        return { ...event, properties: { ...event.properties, part: { ...part(event), state } } }
      })
    },
  },
  {
    id: "late-snapshot",
    on: "baton",
    sometimes: true,
    opencode: "a step begins once its snapshot is taken",
    baton: "the `step-start` part may be sent again with its snapshot",
    reason: "the model is called while the first snapshot of a turn is taken",
    events(events) {
      const isStart = (event, id) => part(event)?.type === "step-start" && (id === undefined || part(event).id === id)
      const isFirst = (event, at) => events.findIndex((other) => isStart(other, part(event).id)) === at
      const kept = events.filter((event, at) => !isStart(event) || isFirst(event, at))
      return kept.map((event) => (isStart(event) ? events.findLast((last) => isStart(last, part(event).id)) : event))
    },
  },
  {
    id: "asked-while-pending",
    on: "opencode",
    sometimes: true,
    opencode: "a tool may ask or report before its call has the state running",
    baton: "the state running comes first",
    reason: "two tasks of OpenCode race; either order occurs",
    events: (events) =>
      moved(
        events,
        ({ type }) => ["permission.asked", "question.asked", "todo.updated"].includes(type),
        (other, event) => isTool(other, "running") && (callOf(event) ?? callOf(other)) === callOf(other),
      ),
  },
  {
    id: "parallel-order",
    on: "both",
    opencode: "each of several calls begins to run when it is read",
    baton: "they begin to run when all are read",
    reason: "calls of one step are independent, and end in any order in both",
    events: (events) => {
      const slots = events.flatMap((event, at) => (isTool(event) ? [at] : []))
      const calls = new Set(slots.map((at) => `${part(events[at]).messageID} ${callOf(events[at])}`))
      const messages = new Set(slots.map((at) => part(events[at]).messageID))
      if (calls.size === messages.size) return events
      const order = (event) => [part(event).messageID, callOf(event)].join(" ")
      const sorted = slots.map((at) => events[at]).sort((a, b) => (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0))
      const result = [...events]
      slots.forEach((at, index) => (result[at] = sorted[index]))
      return result
    },
  },
  {
    id: "step-start",
    on: "baton",
    opencode: "a step starts with the first event of the model",
    baton: "a step starts with the model call, even if the provider rejects it",
    reason: "the part stores the state of the files before the call",
    events: (events) => {
      const isStart = (event) => part(event)?.type === "step-start"
      const rest = events.filter((event) => !isStart(event))
      for (const start of events.filter(isStart)) {
        const at = rest.findIndex((event) => part(event)?.messageID === part(start).messageID)
        if (at >= 0) rest.splice(at, 0, start)
      }
      return rest
    },
    messages: (messages) =>
      messages.map((message) => {
        const isBare = message.parts.every(({ type }) => type === "step-start")
        return isBare ? { ...message, parts: [] } : message
      }),
  },
  {
    id: "reasoning-field",
    on: "baton",
    opencode: "the name of the provider's reasoning field is not stored",
    baton: "stored as `metadata.openaiCompatible.reasoningField` of a reasoning part",
    reason: "Baton returns reasoning to the model in the same field",
    ...eachPart((part) => (part.type === "reasoning" ? without(part, "metadata") : part)),
  },
  {
    id: "write-diff",
    on: "baton",
    opencode: "only `edit` stores its changes",
    baton: "`write` stores them too (`metadata.filediff`)",
    reason: "an addition, so that clients can show both in the same way",
    ...eachPart((part) => {
      if (part.tool !== "write" || !part.state.metadata?.filediff) return part
      const metadata = without(part.state.metadata, "filediff")
      return { ...part, state: { ...part.state, metadata } }
    }),
  },
  {
    id: "own-words",
    on: "both",
    opencode: "has its own texts for a filtered answer, for arguments that do not match, and for the list of tools",
    baton: "has different texts",
    reason: "clients only display these texts; the comparison covers the states",
    events: (events) => events.map((event) => mapStrings(event, ownWords)),
    messages: (messages) => messages.map((message) => mapStrings(message, ownWords)),
  },
  {
    id: "error-address",
    on: "opencode",
    opencode: "errors of a provider name the called address",
    baton: "they do not",
    reason: "addresses of providers may contain keys, and every client sees errors",
    events: (events) =>
      events.map((event) => {
        const { error, info } = event.properties
        if (error) return { ...event, properties: { ...event.properties, error: anonymous(error) } }
        if (!info?.error) return event
        return { ...event, properties: { ...event.properties, info: { ...info, error: anonymous(info.error) } } }
      }),
    messages: (messages) =>
      messages.map((message) =>
        message.info.error
          ? { ...message, info: { ...message.info, error: anonymous(message.info.error) } }
          : message,
      ),
  },
  {
    id: "summary-snapshot",
    on: "opencode",
    opencode: "steps that summarise the conversation carry the state of the files",
    baton: "they do not",
    reason: "no tool runs in them, so no file changes",
    events: (events) => {
      const infos = events.filter(({ type }) => type === "message.updated").map(({ properties }) => properties.info)
      const summaries = new Set(infos.filter(({ summary }) => summary === true).map(({ id }) => id))
      const plain = (part) => (summaries.has(part.messageID) ? without(part, "snapshot") : part)
      return eachPart(plain).events(events)
    },
    messages: (messages) =>
      messages.map((message) =>
        message.info.summary === true
          ? { ...message, parts: message.parts.map((part) => without(part, "snapshot")) }
          : message,
      ),
  },
  {
    id: "child-rules",
    on: "opencode",
    opencode: "the restrictions of a subagent are stored in its session (`permission`)",
    baton: "they follow from the session's `parentID`",
    reason: "the current configuration applies, also to sessions that were created earlier",
    events: (events) =>
      events.map((event) =>
        event.type === "session.created"
          ? { ...event, properties: { ...event.properties, info: ruleless(event.properties.info) } }
          : event,
      ),
    session: (session) => ruleless(session),
  },
  {
    id: "summaries",
    on: "both",
    opencode: "a prompt's `summary` comes later, often after idle, and exists even without changes; a session's `summary` is always zero",
    baton: "both contain the changes, come before idle, and are absent without changes",
    reason: "OpenCode's values depend on the time of reading; the comparison covers the `patch` parts of the steps",
    ...eachInfo((info) => (info.role === "user" ? without(info, "summary") : info)),
    session: (session) => without(session, "summary"),
  },
]

const ruleless = (session) => (session.parentID ? without(session, "permission") : session)

const SENTENCES = [
  /^(The response was blocked by the provider's content filter|the provider's content filter withheld the answer)$/,
  /^(The \w+ tool was called with invalid arguments:|The arguments do not fit the tool \w+:).*$/s,
  /Available tools: [\w, ]*\./,
]

const ownWords = (text) =>
  SENTENCES.reduce((text, sentence, at) => text.replace(sentence, `<sentence ${at + 1}>`), text)

function mapStrings(value, change) {
  if (typeof value === "string") return change(value)
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, change))
  if (value === null || typeof value !== "object") return value
  return Object.fromEntries(Object.entries(value).map(([name, value]) => [name, mapStrings(value, change)]))
}

function anonymous(error) {
  return error.data?.metadata?.url ? { ...error, data: without(error.data, "metadata") } : error
}

// Removes the allowed differences from one side. `used` collects the names of those that removed something.
export function strip(side, record, used) {
  let result = record
  for (const difference of differences) {
    if (difference.on !== side && difference.on !== "both") continue
    for (const what of ["events", "global", "messages", "session"]) {
      const change = difference[what] ?? (what === "global" ? difference.events : undefined)
      if (!change) continue
      const next = change(result[what])
      if (JSON.stringify(next) !== JSON.stringify(result[what])) used.add(difference.id)
      result = { ...result, [what]: next }
    }
  }
  return result
}

// The list as a table in Markdown.
export function table() {
  const rows = differences.map(({ opencode, baton, reason }) => `| ${opencode} | ${baton} | ${reason} |`)
  return ["| OpenCode | Baton | why |", "|---|---|---|", ...rows].join("\n")
}
