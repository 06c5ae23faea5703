// The page while models write: many streams, one very long answer, and many switches between sessions.

import { Probe } from "./probe.mjs"

// Words of one stream and the pause between them: 50 words a second for ten seconds.
const [WORDS, PAUSE_MS] = [500, 20]
const LAST_FRAMES_MS = 500
// The measurement of memory: concurrent sessions, words of each of their turns, and the time between two switches.
const MEMORY_STREAMS = 10
const TURN_WORDS = 750
const SWITCH_MS = 10_000
// Characters and pause of a chunk of a long answer: 50,000 characters a second.
const [CHUNK, CHUNK_MS] = [100, 2]

// One session is open and streams; `others` stream unseen.
export async function streams(browser, side, model, others) {
  model.sent.clear()
  const name = `s${others}`
  const session = await side.short("The open one")
  const probe = await Probe.open(browser)
  await probe.load(side.page(session), "A short answer")
  const rest = await Promise.all(Array.from({ length: others }, (_, number) => side.session(`Unseen ${number}`)))
  // New sessions take a place in the list on purpose; only what streams is measured.
  if (others > 0) await probe.shows(`Unseen ${others - 1}`)
  await probe.follow(name)
  await probe.tasks()
  const [before, shifted] = [await probe.metrics(), await probe.shift()]
  await Promise.all(rest.map((id, number) => side.prompt(id, `stream u${number} ${WORDS} ${PAUSE_MS}`)))
  await side.prompt(session, `stream ${name} ${WORDS} ${PAUSE_MS}`)
  const keys = await probe.type("typed while it streams", 100)
  await Promise.all([session, ...rest].map((id) => side.idle(id)))
  await probe.page.waitForTimeout(LAST_FRAMES_MS)
  const [lags, tasks, after, shift] = [await probe.lags(name, model.sent), await probe.tasks(), await probe.metrics(), await probe.shift()]
  await probe.context.close()
  const lost = lags.filter((lag) => !Number.isFinite(lag)).length
  const script = (after.script - before.script) * 1000
  return { lags, keys, lost, shift: shift - shifted, longest: Math.max(0, ...tasks), script, nodes: after.nodes }
}

// Script time for each character of an answer, and for each frame.
export async function answer(browser, side, characters) {
  const session = await side.short(`An answer of ${characters} characters`)
  const probe = await Probe.open(browser)
  await probe.load(side.page(session), "A short answer")
  const before = await probe.metrics()
  const began = await probe.countFrames()
  await side.prompt(session, `stream bulk${characters} ${characters / CHUNK} ${CHUNK_MS} ${CHUNK}`)
  await side.idle(session)
  await probe.page.waitForTimeout(LAST_FRAMES_MS)
  const frames = (await probe.countFrames()) - began
  const after = await probe.metrics()
  await probe.context.close()
  const script = (after.script - before.script) * 1000
  return { cost: (script * 1000) / characters, frame: script / frames }
}

// What the page holds after a sixth of the time and at its end. Ten sessions work through one turn after the other, and
// the page switches between them.
export async function memory(browser, side, model, seconds) {
  const sessions = []
  for (let number = 0; number < MEMORY_STREAMS; number++) sessions.push(await side.short(`Switched ${number}`))
  const probe = await Probe.open(browser)
  await probe.load(side.page(sessions[0]), "A short answer")
  const began = performance.now()
  const isOver = () => performance.now() - began >= seconds * 1000
  const working = sessions.map((id, number) => work(side, id, `m${number}`, isOver))
  const found = []
  for (let switches = 1; !isOver(); switches++) {
    await probe.go(side.page(sessions[switches % sessions.length]))
    await probe.page.waitForTimeout(Math.min(SWITCH_MS, (seconds * 1000) / 6))
    // The record of marks belongs to the other measurements.
    model.sent.clear()
    const sixths = Math.floor((6 * (performance.now() - began)) / (seconds * 1000))
    if (sixths <= found.length || isOver()) continue
    found.push(await probe.holds())
    console.error(`memory: ${sixths}/6 of the time`, found.at(-1))
  }
  await Promise.all(working)
  found.push(await probe.holds())
  await probe.context.close()
  return { early: found[0], late: found.at(-1) }
}

async function work(side, session, name, isOver) {
  for (let turn = 0; !isOver(); turn++) {
    await side.prompt(session, `stream ${name}t${turn} ${TURN_WORDS} ${PAUSE_MS}`)
    await side.idle(session)
  }
}
