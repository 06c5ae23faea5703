// Sends prompts. A prompt is stored in this browser until the server has accepted it, so neither a crash of the page nor
// a server that is down loses it.

import { Failure, call, messageId } from "./api.ts"
import { type Mention, type MentionPart, mentionParts } from "./core/complete.ts"
import { type Letter, type Outcome, Outbox } from "./core/outbox.ts"
import { rootOf } from "./core/state.ts"
import { type Attachment, type Content, addToDraft, removeDraft, tellDraft } from "./drafts.ts"
import { setPrompted } from "./lists.ts"
import { change, readAll } from "./storage.ts"
import { type Choice, give, isHolder, onFold, onSettled, timer, world } from "./store.ts"

// A line that is no prompt: a slash command with the text after its name, or a command for the shell.
export type Run = { kind: "command"; name: string; arguments: string } | { kind: "shell"; command: string; agent: string }

interface Stored extends Letter {
  text: string
  files: Attachment[]
  mentions?: Mention[]
  // The mentions as the server takes them.
  mentioned?: MentionPart[]
  delivery: "steer" | "queue"
  model?: Choice
  agent?: string
  run?: Run
}

// The choices of a prompt; without them the session's own apply.
type Choices = Pick<Stored, "model" | "agent" | "run">

// Answers of a server, or of a proxy before it, that cannot take the prompt now.
const TEMPORARY = [401, 408, 425, 429, 500, 502, 503, 504]

const attached = ({ files, mentioned = [] }: Stored) => [
  ...files.map(({ name, mime, url }) => ({ type: "file" as const, filename: name, mime, url })),
  ...mentioned,
]

const parts = (letter: Stored) => [
  ...(letter.text.trim() === "" ? [] : [{ type: "text" as const, text: letter.text }]),
  ...attached(letter),
]

// Commands of the user whose message the stream has not shown yet. The server answers the call of such a command only at
// the end of its turn, and prompts behind it must not wait for that.
const arriving = new Map<string, () => void>()

async function deliver(letter: Stored) {
  const { id, sessionID, delivery, model, agent, run } = letter
  const to = { sessionID }
  if (!run) return void (await call("prompt", { in: to, body: { messageID: id, parts: parts(letter), delivery, model, agent } }))
  const name = model && `${model.providerID}/${model.modelID}`
  const ended =
    run.kind === "shell"
      ? call("shell", { in: to, body: { messageID: id, command: run.command, agent: run.agent, model } })
      : call("command", { in: to, body: { messageID: id, command: run.name, arguments: run.arguments, model: name, agent, parts: attached(letter) } })
  const arrived = new Promise<void>((resolve) => arriving.set(id, resolve))
  try {
    await Promise.race([ended, arrived])
  } finally {
    arriving.delete(id)
  }
}

async function attempt(letter: Stored): Promise<Outcome> {
  try {
    await deliver(letter)
    return { kind: "accepted" }
  } catch (error) {
    const isTemporary = !(error instanceof Failure) || TEMPORARY.includes(error.status)
    return isTemporary ? { kind: "unreachable" } : { kind: "refused", reason: error.message }
  }
}

const forget = (id: string) => void change(["outbox"], (store) => store("outbox").delete(id)).catch(() => {})
const keep = (letter: Stored) => change(["outbox"], (store) => store("outbox").put(letter))

const outbox = new Outbox<Stored>({
  post: attempt,
  accepted({ id }, isRepeated) {
    forget(id)
    give({ kind: "sent", id, isRepeated })
  },
  held: ({ id }) => give({ kind: "held", id }),
  refused(letter, reason) {
    void keep({ ...letter, refused: reason }).catch(() => {})
    give({ kind: "failed", id: letter.id, error: reason })
  },
  later: timer,
})

function show(letter: Stored) {
  const { id, sessionID, text, delivery, created } = letter
  give({ kind: "send", prompt: { id, sessionID, text, delivery, created, files: letter.files.map((file) => file.name) } })
}

// Sends the content of a session's composer, and empties its draft in the same transaction.
export function send(sessionID: string, content: Content, delivery: "steer" | "queue", choices: Choices = {}) {
  const letter = write(sessionID, content, delivery, choices)
  const stored = change(["outbox", "drafts"], (store) => {
    store("outbox").put(letter)
    removeDraft(store("drafts"), sessionID)
  })
  stored.then(
    () => tellDraft(sessionID),
    () => {},
  )
  post(letter)
}

// Sends a sentence of the page itself. What the user writes in the composer meanwhile stays there.
export function say(sessionID: string, text: string) {
  const letter = write(sessionID, { text, files: [] }, "steer", {})
  void keep(letter).catch(() => {})
  post(letter)
}

function write(sessionID: string, content: Content, delivery: "steer" | "queue", choices: Choices): Stored {
  const directory = world.sessions.get(sessionID)?.info.directory ?? ""
  const mentioned = mentionParts(content.text, content.mentions ?? [], directory)
  return { id: messageId(Date.now()), sessionID, ...content, mentioned, delivery, ...choices, created: Date.now() }
}

function post(letter: Stored) {
  show(letter)
  setPrompted({ session: rootOf(world, letter.sessionID) })
  if (!outbox.add(letter)) give({ kind: "held", id: letter.id })
}

// Sends a refused prompt again under the same id: the server accepts it once.
export async function sendAgain(id: string) {
  const letter = await find(id)
  if (!letter) return
  show(letter)
  outbox.add({ ...letter, refused: undefined }, true)
}

const find = async (id: string) => (await readAll<Stored>("outbox").catch(() => [])).find((letter) => letter.id === id)

export function discard(id: string) {
  outbox.remove(id)
  forget(id)
  give({ kind: "discard", id })
}

// Takes a prompt that has not been sent back into the composer.
export async function edit(id: string) {
  const letter = await find(id)
  const prompt = world.prompts.get(id)
  if (!prompt) return
  await addToDraft(prompt.sessionID, letter?.text ?? prompt.text, letter?.files, letter?.mentions)
  discard(id)
}

// Sends the prompts of earlier pages and of closed tabs, and shows those that were refused.
async function restore() {
  const letters = await readAll<Stored>("outbox").catch(() => [])
  for (const letter of letters.sort((left, right) => left.created - right.created)) {
    if (outbox.has(letter.id) || world.prompts.has(letter.id)) continue
    show(letter)
    if (letter.refused !== undefined) give({ kind: "failed", id: letter.id, error: letter.refused })
    else outbox.add(letter, true)
  }
}

// A prompt that the stream has shown has arrived, even if the answer to the call was lost.
function confirm() {
  if (outbox.size === 0) return
  for (const id of outbox.ids()) {
    const fate = world.prompts.get(id)?.fate
    if (fate === "sending" || fate === "held") continue
    outbox.remove(id)
    forget(id)
    arriving.get(id)?.()
  }
}

export function startSending() {
  onFold(confirm)
  onSettled(() => {
    outbox.wake()
    if (isHolder()) void restore()
  })
  void restore()
}
