// The budgets of the page, measured beside OpenCode's own web app: both in one Chromium, with the same project, the same
// scripted model and the same sessions. Prints a table; nothing here passes or fails.
//
// `cargo xtask bench web [--messages N] [--streams N] [--seconds N] [--only NAME,…] [--alone]`: the length of the long
// session, the number of concurrent streams, the duration of the memory measurement, the names of the measurements to
// take (see `measures` below), and Baton without OpenCode. `BATON_BIN` names a release binary that is built already.

import { execFileSync } from "node:child_process"
import { parseArgs } from "node:util"
import { fileURLToPath } from "node:url"
import { PAGE_ARGS, launch } from "../../support/browser.mjs"
import { World } from "../../support/server.mjs"
import { OpenCode, furnish, startBaton } from "../support/peers.mjs"
import { Table, kib, median, mib, ms, percentile } from "./figures.mjs"
import * as live from "./live.mjs"
import * as load from "./load.mjs"
import * as long from "./long.mjs"
import { Streams } from "./model.mjs"
import * as outage from "./outage.mjs"
import { Side } from "./page-side.mjs"

const { values } = parseArgs({
  options: {
    messages: { type: "string", default: "10000" },
    streams: { type: "string", default: "100" },
    seconds: { type: "string", default: "3600" },
    only: { type: "string" },
    alone: { type: "boolean", default: false },
  },
})
const [MESSAGES, STREAMS, SECONDS] = [values.messages, values.streams, values.seconds].map(Number)
const KIB = 1024
// The most elements that a page may have.
const MAX_NODES = 4_000

const model = await Streams.start()
const browser = await launch()
const sides = []
const table = new Table(process.env.OPENCODE_VERSION)

const both = async (measure) => {
  const results = []
  for (const side of sides) results.push(await measure(side))
  return results
}
const alone = async (measure) => [await measure(sides[0])]
const p95 = (values) => percentile(values, 0.95)
const pair = (values) => `${ms(median(values))} / ${ms(p95(values))}`

// Listeners, timers and detached nodes may differ by what one session shows, and do not grow.
const isFlat = (early, late) => ["listeners", "timers", "detached"].every((name) => late[name] <= 1.2 * early[name] + 20)

const foldRate = () => {
  const cwd = fileURLToPath(new URL("../../../crates/web/ui", import.meta.url))
  const args = ["--import", "./test/typescript.mjs", "test/fold.bench.ts"]
  return execFileSync(process.execPath, args, { cwd, encoding: "utf8" }).trim()
}

const measures = {
  async load() {
    const found = await both(async (side) => {
      const session = await side.short("A first session")
      return load.times(browser, side.page(session), "A short answer")
    })
    table.row(
      "first load: scripts / styles / all, as transferred",
      "90 / 16 / 115 KiB",
      found,
      ({ loaded }) => [loaded.script, loaded.style, loaded.all].map(kib).join(" / "),
      ({ loaded }) => loaded.script <= 90 * KIB && loaded.style <= 16 * KIB && loaded.all <= 115 * KIB,
    )
    const whole = await alone((side) => load.everything(side.server.url))
    table.row("all files of the page, compressed", "450 KiB", whole, kib, (bytes) => bytes <= 450 * KIB)
    const list = await alone((side) => load.times(browser, `${side.server.url}/`, "A first session"))
    const loaded = ({ cold, warm, slow }) => [cold, warm, slow].map(ms).join(" / ")
    table.row(
      "address to list: cold / warm / cold with a CPU four times slower",
      "400 / 200 / 1500 ms",
      list,
      loaded,
      ({ cold, warm, slow }) => cold <= 400 && warm <= 200 && slow <= 1_500,
    )
    table.row("address to readable session: cold / warm / cold with a CPU four times slower", "", found, loaded)
    table.row("memory of the page / DOM nodes, one short session", "", found, ({ metrics }) => `${mib(metrics.heap)} / ${metrics.nodes}`)
  },
  async idle() {
    const visible = await both((side) => load.idle(browser, side))
    const show = ({ frames, timers, work }) => `${frames} / ${timers.toFixed(1)} / ${work.toFixed(1)} ms`
    const what = "animation frames in 10 s / timers a second / work a second"
    table.row(`idle, visible: ${what}`, "0 / 1 / –", visible, show, ({ frames, timers }) => frames === 0 && timers <= 1)
    const hidden = await alone((side) => load.idle(browser, side, { isHidden: true }))
    table.row(`idle, hidden: ${what}`, "0 / 0.1 / –", hidden, show, ({ frames, timers }) => frames === 0 && timers <= 0.1)
  },
  async long() {
    const found = await both((side) => long.session(browser, side, MESSAGES))
    const what = `a session of ${MESSAGES} messages`
    table.row(`${what}: address to newest / memory`, "", found, ({ loaded, heap }) => `${ms(loaded)} / ${mib(heap)}`)
    const [own] = found
    table.row(`${what}: opened in the page`, "250 ms", [own], ({ opened }) => ms(opened), ({ opened }) => opened <= 250)
    table.row(`${what}: jump to the oldest`, "1500 ms", [own], ({ oldest }) => ms(oldest), ({ oldest }) => oldest <= 1_500)
    table.row(`${what}: DOM nodes`, String(MAX_NODES), found, ({ nodes }) => String(nodes), ({ nodes }) => nodes <= MAX_NODES)
  },
  async switch() {
    table.row("switch to a session seen before", "60 ms", await alone((side) => long.switching(browser, side)), ms, (time) => time <= 60)
  },
  async streams() {
    for (const others of [0, STREAMS - 1]) {
      const found = await both((side) => live.streams(browser, side, model, others))
      const what = `${others + 1} ${others === 0 ? "stream" : "streams"} of 50 words/s`
      table.row(`${what}: model to screen, p50 / p95`, "p95 100 ms", found, ({ lags }) => pair(lags), ({ lags }) => p95(lags) <= 100)
      table.row(`${what}: key to screen, p50 / p95`, "p95 50 ms", found, ({ keys }) => pair(keys), ({ keys }) => p95(keys) <= 50)
      table.row(
        `${what}: longest task / script time in all`,
        "100 ms / –",
        found,
        ({ longest, script }) => `${longest === 0 ? "below 50 ms" : ms(longest)} / ${ms(script)}`,
        ({ longest }) => longest <= 100,
      )
      table.row(
        `${what}: marks not shown / layout shift / DOM nodes`,
        `0 / 0 / ${MAX_NODES}`,
        found,
        ({ lost, shift, nodes }) => `${lost} / ${shift.toFixed(3)} / ${nodes}`,
        ({ lost, shift, nodes }) => lost === 0 && shift === 0 && nodes <= MAX_NODES,
      )
    }
  },
  async answer() {
    const found = await both(async (side) => {
      const small = await live.answer(browser, side, 100_000)
      const large = await live.answer(browser, side, 1_000_000)
      return { small, large }
    })
    table.row(
      "an answer of 100 KB / 1 MB: script time per 1,000 characters; per frame",
      "ratio 1.5; 4 ms",
      found,
      ({ small, large }) =>
        `${small.cost.toFixed(2)} / ${large.cost.toFixed(2)} ms, ratio ${(large.cost / small.cost).toFixed(2)}; ${small.frame.toFixed(1)} / ${large.frame.toFixed(1)} ms`,
      ({ small, large }) => large.cost <= 1.5 * small.cost && Math.max(small.frame, large.frame) <= 4,
    )
  },
  async memory() {
    const found = await alone((side) => live.memory(browser, side, model, SECONDS))
    const show = ({ heap, listeners, timers, detached }) => `${mib(heap)}, ${listeners} listeners, ${timers} timers, ${detached} detached nodes`
    table.row(
      `${SECONDS} s of turns in 10 sessions, 500 words/s, a switch every 10 s: after a sixth / at the end`,
      "within 10 %, 150 MiB, flat",
      found,
      ({ early, late }) => `${show(early)} / ${show(late)}`,
      ({ early, late }) => late.heap <= 1.1 * early.heap && late.heap <= 150 * KIB * KIB && isFlat(early, late),
    )
  },
  async outage() {
    table.row("server back after a crash to live page", "1000 ms", await alone((side) => outage.crash(browser, side)), ms, (it) => it <= 1_000)
    table.row("10,000 missed events to right page", "500 ms", await alone((side) => outage.missed(browser, side)), ms, (it) => it <= 500)
  },
  async review() {
    table.row(
      "diff of 500 files, 100,000 lines and a line of 1 MB: first file / longest task",
      "500 ms / 100 ms",
      [await long.review(browser)],
      ({ first, longest }) => `${ms(first)} / ${longest === 0 ? "below 50 ms" : ms(longest)}`,
      ({ first, longest }) => first <= 500 && longest <= 100,
    )
  },
  async tabs() {
    table.row(
      "12 tabs: first / last / event streams in all",
      "last as fast as first / 1",
      await both((side) => load.tabs(browser, side)),
      ({ times, streams }) => `${ms(times[0])} / ${times.includes(undefined) ? `tab ${times.length} does not open` : ms(times.at(-1))} / ${streams}`,
      ({ times, streams }) => times.at(-1) <= 1.2 * times[0] && streams === 1,
    )
  },
  async fold() {
    table.row("the fold alone, under Node", "300,000 deltas/s", [foldRate()], String, (rate) => parseInt(rate) >= 300_000)
  },
}

try {
  const world = await furnish(await World.create(), model)
  const baton = new Side(await startBaton(model, { world, args: PAGE_ARGS }), (session) => `#/s/${session}`)
  baton.isBaton = true
  sides.push(baton)
  if (!values.alone) {
    const encode = (directory) => Buffer.from(directory).toString("base64url")
    const opencode = await OpenCode.start(model, { env: { OPENCODE_DISABLE_EMBEDDED_WEB_UI: undefined } })
    sides.push(new Side(opencode, (session, server) => `${encode(server.directory)}/session/${session}`))
  }
  for (const name of values.only?.split(",") ?? Object.keys(measures)) {
    await measures[name]().catch((error) => console.error(`${name}: ${error.stack}`))
  }
} finally {
  for (const { server } of sides) await server.stop()
  await browser.close()
  await model.stop()
}
table.print()
