// The page beside OpenCode's own web app: both in one Chromium, with the same project, the same scripted model and the
// same sessions. Prints a table; nothing here passes or fails.
//
// `cargo xtask bench web [--messages N] [--streams N]`: the length of the long session and the number of concurrent streams.

import { execFileSync } from "node:child_process"
import os from "node:os"
import { parseArgs } from "node:util"
import { fileURLToPath } from "node:url"
import { launch } from "../../support/browser.mjs"
import { within } from "../../support/wait.mjs"
import { OpenCode, startBaton } from "../support/peers.mjs"
import { Streams } from "./model.mjs"
import { PATIENCE_MS, Probe } from "./probe.mjs"

const { values } = parseArgs({ options: { messages: { type: "string" }, streams: { type: "string" } } })
const MESSAGES = Number(values.messages ?? 1_000)
const STREAMS = Number(values.streams ?? 100)
// Prompts without an answer that are sent at once while the long session is written.
const WRITERS = 8
const RUNS = 5
const TABS = 12
const IDLE_MS = 5_000
// Words of one stream and the pause between them: 50 words a second for ten seconds.
const [WORDS, PAUSE_MS] = [500, 20]

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]
const percentile = (values, share) => [...values].sort((a, b) => a - b)[Math.ceil(values.length * share) - 1]
const ms = (value) => (value === undefined || !Number.isFinite(value) ? "not shown" : `${value.toFixed(0)} ms`)
const kib = (bytes) => `${(bytes / 1024).toFixed(0)} KiB`
const mib = (bytes) => `${(bytes / 1024 / 1024).toFixed(1)} MiB`

const rows = []
const report = (what, baton, opencode) => {
  rows.push([what, baton, opencode])
  console.error(`${what}: ${baton} | ${opencode}`)
}

// A server and how its page addresses a session.
class Side {
  constructor(server, address) {
    this.server = server
    this.address = address
  }

  page = (session) => `${this.server.url}/${this.address(session, this.server)}`

  async call(target, body) {
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }
    const response = await this.server.fetch(target, init)
    if (!response.ok) throw new Error(`${target}: ${response.status} ${await response.text()}`)
    return response.status === 204 ? undefined : response.json()
  }

  async session(title) {
    return (await this.call("/session", { title })).id
  }

  prompt = (session, text, more = {}) =>
    this.call(`/session/${session}/prompt_async`, { parts: [{ type: "text", text }], ...more })

  async idle(session) {
    const check = async () => {
      for (;;) {
        const statuses = await (await this.server.fetch("/session/status")).json()
        if ((statuses[session]?.type ?? "idle") === "idle") return
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    }
    await within(PATIENCE_MS * 4, check(), "the session to become idle")
  }

  // A session with one short turn.
  async short(title) {
    const session = await this.session(title)
    await this.prompt(session, "hello")
    await this.answered(session)
    return session
  }

  async answered(session) {
    const check = async () => {
      for (;;) {
        const messages = await (await this.server.fetch(`/session/${session}/message`)).json()
        if (JSON.stringify(messages).includes("A short answer")) return
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    }
    await within(PATIENCE_MS, check(), "an answer")
    await this.idle(session)
  }

  // A session with many prompts, the last of which ends with its number.
  async long(count) {
    const session = await this.session("A long session")
    const write = async (number) => {
      const parts = [{ type: "text", text: `Message number ${number} of a long session.` }]
      await this.call(`/session/${session}/message`, { parts, noReply: true })
    }
    for (let number = 0; number < count - 1; number += WRITERS) {
      const batch = Array.from({ length: Math.min(WRITERS, count - 1 - number) }, (_, index) => number + index)
      await Promise.all(batch.map(write))
    }
    await write("last")
    return session
  }
}

async function loading(browser, side) {
  const session = await side.short("A first session")
  const [cold, warm] = [[], []]
  let loaded
  let metrics
  for (let run = 0; run < RUNS; run++) {
    const probe = await Probe.open(browser)
    cold.push(await probe.load(side.page(session), "A short answer"))
    loaded ??= { ...probe.loaded }
    warm.push(await probe.reload("A short answer"))
    metrics ??= await probe.metrics()
    await probe.context.close()
  }
  const slow = await Probe.open(browser, { slow: 4 })
  const throttled = await slow.load(side.page(session), "A short answer")
  await slow.context.close()
  return { cold: median(cold), warm: median(warm), throttled, loaded, metrics }
}

async function idling(browser, side) {
  const session = await side.short("An idle session")
  const probe = await Probe.open(browser)
  await probe.load(side.page(session), "A short answer")
  await probe.page.waitForTimeout(IDLE_MS)
  const before = await probe.metrics()
  await probe.page.waitForTimeout(IDLE_MS)
  const after = await probe.metrics()
  await probe.context.close()
  return ((after.task - before.task) * 1000) / (IDLE_MS / 1000)
}

async function longSession(browser, side, count) {
  const session = await side.long(count)
  const opened = []
  let metrics
  for (let run = 0; run < RUNS; run++) {
    const probe = await Probe.open(browser)
    opened.push(await probe.load(side.page(session), "Message number last of"))
    metrics = await probe.metrics()
    await probe.context.close()
  }
  return { opened: median(opened), ...metrics }
}

// One session is open and streams; `others` stream unseen.
async function streaming(browser, side, model, others) {
  model.sent.clear()
  const name = `s${others}`
  const session = await side.session("The open one")
  await side.prompt(session, "hello")
  await side.answered(session)
  const probe = await Probe.open(browser)
  await probe.load(side.page(session), "A short answer")
  const rest = await Promise.all(Array.from({ length: others }, (_, number) => side.session(`Unseen ${number}`)))
  await probe.follow(name)
  await probe.tasks()
  const before = await probe.metrics()
  await Promise.all(rest.map((id, number) => side.prompt(id, `stream u${number} ${WORDS} ${PAUSE_MS}`)))
  await side.prompt(session, `stream ${name} ${WORDS} ${PAUSE_MS}`)
  const keys = await probe.type("typed while it streams", 100)
  await Promise.all([session, ...rest].map((id) => side.idle(id)))
  await probe.page.waitForTimeout(500)
  const [lags, tasks, after] = [await probe.lags(name, model.sent), await probe.tasks(), await probe.metrics()]
  await probe.context.close()
  return { lags, keys, longest: Math.max(0, ...tasks), script: (after.script - before.script) * 1000, heap: after.heap }
}

async function tabs(browser, side) {
  const session = await side.short("Many tabs")
  const context = await browser.newContext()
  const open = []
  const times = []
  for (let number = 0; number < TABS; number++) {
    const probe = await Probe.open(browser, { context })
    open.push(probe)
    times.push(await probe.load(side.page(session), "A short answer").catch(() => undefined))
    if (times.at(-1) === undefined) break
  }
  await context.close()
  return times
}

const foldRate = () => {
  const cwd = fileURLToPath(new URL("../../../crates/web/ui", import.meta.url))
  const args = ["--import", "./test/typescript.mjs", "test/fold.bench.ts"]
  return execFileSync(process.execPath, args, { cwd, encoding: "utf8" }).trim()
}

const model = await Streams.start()
const browser = await launch()
const sides = []
try {
  sides.push(new Side(await startBaton(model), (session) => `#/s/${session}`))
  const encode = (directory) => Buffer.from(directory).toString("base64url")
  const opencode = await OpenCode.start(model, { env: { OPENCODE_DISABLE_EMBEDDED_WEB_UI: undefined } })
  sides.push(new Side(opencode, (session, server) => `${encode(server.directory)}/session/${session}`))
  const both = async (measure) => {
    const results = []
    for (const side of sides) results.push(await measure(side))
    return results
  }
  const row = (what, results, show) => report(what, ...results.map(show))

  const load = await both((side) => loading(browser, side))
  row("first load: scripts / styles / all, as transferred", load, ({ loaded }) =>
    [loaded.script, loaded.style, loaded.all].map(kib).join(" / "),
  )
  row("address to readable session: cold / warm", load, ({ cold, warm }) => `${ms(cold)} / ${ms(warm)}`)
  row("the same with a CPU four times slower, cold", load, ({ throttled }) => ms(throttled))
  row("memory of the page / DOM nodes, one short session", load, ({ metrics }) => `${mib(metrics.heap)} / ${metrics.nodes}`)
  row("work of an idle page, per second", await both((side) => idling(browser, side)), (it) => `${it.toFixed(1)} ms`)
  row(
    `a session of ${MESSAGES} messages: newest readable / memory / DOM nodes`,
    await both((side) => longSession(browser, side, MESSAGES)),
    ({ opened, heap, nodes }) => `${ms(opened)} / ${mib(heap)} / ${nodes}`,
  )
  for (const others of [0, STREAMS - 1]) {
    const results = await both((side) => streaming(browser, side, model, others))
    const what = `${others + 1} ${others === 0 ? "stream" : "streams"} of 50 words/s`
    row(`${what}: model to screen, p50 / p95`, results, ({ lags }) => `${ms(median(lags))} / ${ms(percentile(lags, 0.95))}`)
    row(`${what}: key to screen, p50 / p95`, results, ({ keys }) => `${ms(median(keys))} / ${ms(percentile(keys, 0.95))}`)
    row(`${what}: longest task / script time`, results, ({ longest, script }) => `${ms(longest)} / ${ms(script)}`)
  }
  row(`${TABS} tabs: first / last that opens`, await both((side) => tabs(browser, side)), (times) => {
    const last = times.findLastIndex((time) => time !== undefined)
    return `${ms(times[0])} / ${last === TABS - 1 ? ms(times[last]) : `tab ${last + 2} does not`}`
  })
  report("the fold alone, under Node", foldRate(), "–")
} finally {
  for (const { server } of sides) await server.stop()
  await browser.close()
  await model.stop()
}
console.log(`Load of the machine at the end: ${os.loadavg()[0].toFixed(1)} on ${os.cpus().length} cores.\n`)
console.log(`| what | Baton | OpenCode ${process.env.OPENCODE_VERSION} |\n|---|---|---|`)
for (const cells of rows) console.log(`| ${cells.join(" | ")} |`)
