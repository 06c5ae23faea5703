// Prompts on their way: in order, kept while the server cannot be reached, and accepted once.

import assert from "node:assert/strict"
import { test } from "node:test"
import { type Letter, type Outcome, MAX_LETTERS, Outbox } from "../src/core/outbox.ts"
import { Clock, rest } from "./clock.ts"
import { dice } from "./support.ts"

const letter = (id: string, created = 0, sessionID = "ses_a"): Letter => ({ id, sessionID, created })

function setup(answer: (letter: Letter, attempt: number) => Outcome) {
  const clock = new Clock()
  const log: string[] = []
  const attempts = new Map<string, number>()
  const outbox = new Outbox<Letter>({
    async post(letter) {
      const attempt = (attempts.get(letter.id) ?? 0) + 1
      attempts.set(letter.id, attempt)
      log.push(`post ${letter.id}`)
      return answer(letter, attempt)
    },
    accepted: ({ id }, isRepeated) => log.push(`accepted ${id}${isRepeated ? " again" : ""}`),
    held: ({ id }) => log.push(`held ${id}`),
    refused: ({ id }, reason) => log.push(`refused ${id} ${reason}`),
    later: clock.later,
  })
  return { clock, log, outbox }
}

const accept: Outcome = { kind: "accepted" }
const unreachable: Outcome = { kind: "unreachable" }

test("prompts of one session are sent one after the other", async () => {
  const { log, outbox } = setup(() => accept)
  outbox.add(letter("1"))
  outbox.add(letter("2"))
  await rest()
  assert.deepEqual(log, ["post 1", "accepted 1", "post 2", "accepted 2"])
  assert.equal(outbox.size, 0)
})

test("a prompt waits while the server is down, and later ones wait behind it", async () => {
  let isDown = true
  const { clock, log, outbox } = setup(() => (isDown ? unreachable : accept))
  outbox.add(letter("1"))
  outbox.add(letter("2"))
  await rest()
  assert.deepEqual(log, ["post 1", "held 1", "held 2"])
  isDown = false
  outbox.wake()
  await rest()
  assert.deepEqual(log.slice(3), ["post 1", "accepted 1 again", "post 2", "accepted 2"])
  assert.equal(clock.waiting, 0, "no timer is left")
})

test("attempts go on without a new connection", async () => {
  const { clock, log, outbox } = setup((_, attempt) => (attempt < 4 ? unreachable : accept))
  outbox.add(letter("1"))
  await clock.pass(10_000)
  assert.equal(log.filter((line) => line === "post 1").length, 4)
  assert.equal(log.at(-1), "accepted 1 again")
})

test("a refused prompt does not stop the next one", async () => {
  const { log, outbox } = setup(({ id }) => (id === "1" ? { kind: "refused", reason: "too large" } : accept))
  outbox.add(letter("1"))
  outbox.add(letter("2"))
  await rest()
  assert.deepEqual(log, ["post 1", "refused 1 too large", "post 2", "accepted 2"])
})

test("a prompt that the stream has shown is not sent again", async () => {
  const { clock, log, outbox } = setup(() => unreachable)
  outbox.add(letter("1"))
  await rest()
  outbox.remove("1")
  await clock.pass(60_000)
  assert.deepEqual(log, ["post 1", "held 1"])
})

test("a restored prompt goes before those of this page, and too many are refused", async () => {
  const { log, outbox } = setup(() => unreachable)
  outbox.add(letter("2", 20))
  await rest()
  outbox.add(letter("1", 10), true)
  await rest()
  assert.deepEqual(log.slice(2), ["post 1", "held 1", "held 2"])
  for (let at = 3; at <= MAX_LETTERS; at++) assert.ok(outbox.add(letter(String(at), at)))
  assert.equal(outbox.add(letter("one too many", 999)), false)
})

test("whatever fails, a server that accepts an id once gets each prompt once and in order", async () => {
  for (let seed = 1; seed <= 300; seed++) {
    const roll = dice(seed)
    const stored: string[] = []
    const { clock, outbox } = setup(({ id }) => {
      const outcome = roll.below(3)
      // The call arrives, and its answer may be lost.
      if (outcome > 0 && !stored.includes(id)) stored.push(id)
      return outcome === 2 ? accept : unreachable
    })
    const ids = Array.from({ length: 5 }, (_, at) => `${seed} ${at}`)
    for (const [at, id] of ids.entries()) {
      outbox.add(letter(id, at))
      if (roll.below(2)) await rest()
      if (roll.below(3) === 0) outbox.wake()
    }
    await clock.pass(600_000)
    assert.deepEqual(stored, ids, `seed ${seed}`)
    assert.equal(outbox.size, 0)
  }
})
