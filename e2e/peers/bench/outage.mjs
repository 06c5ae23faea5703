// A server that is killed and comes back, and a page that has missed many events.

import { Flaky } from "../../support/flaky.mjs"
import { median } from "./figures.mjs"
import { Probe } from "./probe.mjs"

const RUNS = 5
// Messages without an answer; each is three events.
const MISSED = 3_334

// From the first line of the new server to a session in the page that was created after it.
export async function crash(browser, side) {
  const probe = await Probe.open(browser)
  await probe.load(side.page(await side.short("Before a crash")), "A short answer")
  const times = []
  for (let run = 0; run < RUNS; run++) {
    await side.server.kill()
    await side.server.begin()
    const began = Date.now()
    const title = `Back after crash ${run}`
    await side.session(title)
    await probe.shows(title)
    times.push(Date.now() - began)
  }
  await probe.context.close()
  return median(times)
}

// From the new connection to the last of 10,000 events that the page has missed.
export async function missed(browser, side) {
  const flaky = await Flaky.start(side.server.url, 1)
  const times = []
  try {
    for (let run = 0; run < RUNS; run++) {
      const session = await side.short(`Misses events ${run}`)
      const probe = await Probe.open(browser)
      await probe.load(`${flaky.url}/#/s/${session}`, "A short answer")
      flaky.isDown = true
      flaky.cut()
      const texts = Array.from({ length: MISSED }, (_, number) => `missed ${number}`)
      await side.write(session, texts)
      await side.write(session, ["the last one that was missed"])
      flaky.isDown = false
      const began = await probe.page.evaluate(() => (dispatchEvent(new Event("online")), performance.now()))
      times.push((await probe.shows("the last one that was missed")) - began)
      await probe.context.close()
    }
  } finally {
    await flaky.close()
  }
  return median(times)
}
