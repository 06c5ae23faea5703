// Loading the page: bytes, times, tabs, and the work of a page that has nothing to do.

import { get } from "node:http"
import { median } from "./figures.mjs"
import { Probe } from "./probe.mjs"

const RUNS = 5
const TABS = 12
const IDLE_MS = 10_000

// Address to text: cold, warm and with a slower CPU.
export async function times(browser, address, text) {
  const [cold, warm, slow] = [[], [], []]
  let loaded
  let metrics
  for (let run = 0; run < RUNS; run++) {
    const probe = await Probe.open(browser)
    cold.push(await probe.load(address, text))
    loaded ??= { ...probe.loaded }
    warm.push(await probe.reload(text))
    metrics ??= await probe.metrics()
    await probe.context.close()
    const throttled = await Probe.open(browser, { slow: 4 })
    slow.push(await throttled.load(address, text))
    await throttled.context.close()
  }
  return { cold: median(cold), warm: median(warm), slow: median(slow), loaded, metrics }
}

// Bytes of a file as it is transferred, and the names of files in it.
const fetchPacked = (url) =>
  new Promise((resolve, reject) => {
    get(url, { headers: { "accept-encoding": "gzip" } }, (response) => {
      let size = 0
      response.on("data", (chunk) => (size += chunk.length))
      response.on("end", () => resolve({ status: response.statusCode, size }))
    }).on("error", reject)
  })

// Bytes of all files of the page, also of those that are loaded when they are needed.
export async function everything(url) {
  const seen = new Set()
  const open = [new URL("./", url).href]
  let bytes = 0
  for (let file = open.pop(); file; file = open.pop()) {
    if (seen.has(file)) continue
    seen.add(file)
    const { status, size } = await fetchPacked(file)
    if (status !== 200) continue
    bytes += size
    const text = await (await fetch(file)).text()
    for (const [name] of text.matchAll(/[\w-]+-[\w-]{8}\.(?:js|css|svg|png)/g)) open.push(new URL(`web/assets/${name}`, url).href)
  }
  return bytes
}

// Timers and frames that run, and the work that is done, per second.
export async function idle(browser, side, { isHidden = false } = {}) {
  const probe = await Probe.open(browser)
  await probe.load(side.page(await side.short("An idle session")), "A short answer")
  if (isHidden) await probe.hide()
  // The first seconds still contain work of the turn.
  await probe.page.waitForTimeout(IDLE_MS / 2)
  const [before] = [await probe.metrics(), await probe.counts()]
  await probe.page.waitForTimeout(IDLE_MS)
  const { frames, timers } = await probe.counts()
  const after = await probe.metrics()
  await probe.context.close()
  const seconds = IDLE_MS / 1000
  return { frames, timers: timers / seconds, work: ((after.task - before.task) * 1000) / seconds }
}

// Times until each of many tabs shows a session, and the event streams that they open in all.
export async function tabs(browser, side) {
  const session = await side.short("Many tabs")
  const context = await browser.newContext()
  let streams = 0
  context.on("request", (request) => (streams += Number(request.url().includes("/global/event"))))
  const times = []
  for (let number = 0; number < TABS; number++) {
    const probe = await Probe.open(browser, { context })
    times.push(await probe.load(side.page(session), "A short answer").catch(() => undefined))
    if (times.at(-1) === undefined) break
  }
  // Closing a tab hands its stream over to another one.
  const opened = streams
  await context.close()
  return { times, streams: opened }
}
