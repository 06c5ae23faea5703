// Measures any page from outside: loaded bytes, and the times of visible text, drawn keys and long tasks.

import { within } from "../../support/wait.mjs"
import { markOf } from "./model.mjs"

// The timeout of one measurement.
export const PATIENCE_MS = 30_000

// Runs in the page before its own scripts.
function install() {
  const probe = (window.probe = { tasks: [], keys: [], marks: new Map(), texts: new Map(), shift: 0, frames: 0, timers: 0, drawn: 0 })
  const own = { frame: requestAnimationFrame.bind(window), timeout: setTimeout.bind(window) }
  // Counts callbacks of the page, not those of the probe.
  window.requestAnimationFrame = (run) => own.frame((time) => (probe.frames++, run(time)))
  // The timers that are set.
  const set = (probe.set = new Set())
  for (const [begin, end] of [["setTimeout", "clearTimeout"], ["setInterval", "clearInterval"]]) {
    const [original, clear] = [window[begin].bind(window), window[end].bind(window)]
    window[begin] = (run, ...args) => {
      const called = (...given) => {
        probe.timers++
        if (begin === "setTimeout") set.delete(id)
        run(...given)
      }
      const id = original(called, ...args)
      set.add(id)
      return id
    }
    window[end] = (id) => (set.delete(id), clear(id))
  }
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) probe.shift += value
  }).observe({ type: "layout-shift" })
  new PerformanceObserver((list) => probe.tasks.push(...list.getEntries().map((it) => it.duration))).observe({
    type: "longtask",
    buffered: true,
  })
  // A task after the next frame runs when that frame has been painted.
  const painted = (run) => own.frame(() => own.timeout(run))
  addEventListener("keydown", ({ timeStamp }) => painted(() => probe.keys.push(performance.now() - timeStamp)), true)
  const look = () => {
    const text = document.body?.textContent ?? ""
    for (const [wanted, resolve] of probe.texts) {
      if (!text.includes(wanted)) continue
      probe.texts.delete(wanted)
      painted(() => resolve(performance.now()))
    }
    for (const [name, seen] of probe.marks) {
      const start = text.lastIndexOf(`⟦${name}:`)
      const end = text.indexOf("⟧", start)
      if (start < 0 || end < 0) continue
      const number = Number(text.slice(start + name.length + 2, end))
      if (number !== seen.at(-1)?.number) seen.push({ number, at: Date.now() })
    }
    if (probe.texts.size > 0 || probe.marks.size > 0) own.frame(look)
  }
  probe.look = look
  probe.countFrames = () => own.frame(function next() {
    probe.drawn++
    own.frame(next)
  })
}

export class Probe {
  static async open(browser, { slow = 1, context } = {}) {
    const probe = new Probe()
    probe.context = context ?? (await browser.newContext({ viewport: { width: 1280, height: 800 } }))
    probe.page = await probe.context.newPage()
    await probe.page.addInitScript(install)
    probe.devtools = await probe.context.newCDPSession(probe.page)
    await probe.devtools.send("Network.enable")
    await probe.devtools.send("Performance.enable")
    if (slow > 1) await probe.devtools.send("Emulation.setCPUThrottlingRate", { rate: slow })
    probe.loaded = { script: 0, style: 0, all: 0 }
    const kinds = new Map()
    probe.devtools.on("Network.responseReceived", ({ requestId, type }) => kinds.set(requestId, type))
    probe.devtools.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
      const kind = kinds.get(requestId)
      if (kind === "Script") probe.loaded.script += encodedDataLength
      if (kind === "Stylesheet") probe.loaded.style += encodedDataLength
      if (["Script", "Stylesheet", "Document", "Font", "Image"].includes(kind)) probe.loaded.all += encodedDataLength
    })
    return probe
  }

  // Milliseconds from the start of the navigation until the text is on the screen.
  async load(url, text) {
    await this.page.goto(url, { waitUntil: "commit", timeout: PATIENCE_MS })
    return this.shows(text)
  }

  async reload(text) {
    await this.page.reload({ waitUntil: "commit" })
    return this.shows(text)
  }

  // Changes the address within the page; milliseconds until the text is on the screen.
  turnTo(url, text) {
    const shown = this.page.evaluate(
      ([url, wanted]) =>
        new Promise((resolve) => {
          const began = performance.now()
          location.href = url
          window.probe.texts.set(wanted, (at) => resolve(at - began))
          window.probe.look()
        }),
      [url, text],
    )
    return within(PATIENCE_MS, shown, `“${text}” in the page`)
  }

  // Changes the address within the page, as a link would.
  go(url) {
    return this.page.evaluate((url) => void (location.href = url), url)
  }

  // Makes the page believe that it is hidden.
  hide() {
    return this.page.evaluate(() => {
      Object.defineProperty(document, "hidden", { value: true })
      Object.defineProperty(document, "visibilityState", { value: "hidden" })
      document.dispatchEvent(new Event("visibilitychange"))
    })
  }

  // Callbacks of frames and timers since the last call.
  counts = () =>
    this.page.evaluate(() => {
      const { frames, timers } = window.probe
      Object.assign(window.probe, { frames: 0, timers: 0 })
      return { frames, timers }
    })

  // Frames that the browser has drawn since the first call.
  countFrames = () =>
    this.page.evaluate(() => {
      if (window.probe.drawn === 0) window.probe.countFrames()
      return window.probe.drawn
    })

  // The sum of all layout shifts that no input has caused.
  shift = () => this.page.evaluate(() => window.probe.shift)

  // The time in the page at which the text is on the screen.
  shows(text) {
    const shown = this.page.evaluate(
      (wanted) =>
        new Promise((resolve) => {
          window.probe.texts.set(wanted, resolve)
          window.probe.look()
        }),
      text,
    )
    return within(PATIENCE_MS, shown, `“${text}” in the page`)
  }

  // Starts to watch for the marks of a stream.
  follow(name) {
    return this.page.evaluate((stream) => {
      window.probe.marks.set(stream, [])
      window.probe.look()
    }, name)
  }

  // Milliseconds from the model to the screen, for every mark that was sent. A mark that was drawn together with a later
  // one was on the screen at that moment.
  async lags(name, sent) {
    const seen = await this.page.evaluate((stream) => {
      const marks = window.probe.marks.get(stream)
      window.probe.marks.delete(stream)
      return marks
    }, name)
    const lags = []
    for (const [mark, at] of sent) {
      const number = Number(mark.split(":")[1]?.slice(0, -1))
      if (mark !== markOf(name, number)) continue
      const drawn = seen.find((it) => it.number >= number)
      lags.push(drawn ? drawn.at - at : Infinity)
    }
    return lags
  }

  async type(text, delay) {
    await this.page.locator('textarea, [contenteditable="true"]').last().click()
    await this.page.keyboard.type(text, { delay })
    return this.page.evaluate(() => window.probe.keys.splice(0))
  }

  // Durations of tasks longer than 50 ms since the last call.
  tasks = () => this.page.evaluate(() => window.probe.tasks.splice(0))

  async metrics() {
    await this.devtools.send("HeapProfiler.collectGarbage")
    const { metrics } = await this.devtools.send("Performance.getMetrics")
    const of = (name) => metrics.find((it) => it.name === name)?.value ?? 0
    return { heap: of("JSHeapUsedSize"), nodes: of("Nodes"), listeners: of("JSEventListeners"), script: of("ScriptDuration"), task: of("TaskDuration") }
  }

  // Everything that the page keeps after a collection: memory, listeners, timers, and nodes outside of its document.
  async holds() {
    const { heap, nodes, listeners } = await this.metrics()
    const [timers, attached] = await this.page.evaluate(() => {
      const walker = document.createTreeWalker(document, NodeFilter.SHOW_ALL)
      let count = 1
      while (walker.nextNode()) count++
      return [window.probe.set.size, count]
    })
    return { heap, listeners, timers, detached: Math.max(0, nodes - attached) }
  }

  async close() {
    await this.page.close()
  }
}
