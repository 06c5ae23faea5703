// A very long session, sessions that were seen before, and a large review.

import { PAGE_ARGS } from "../../support/browser.mjs"
import { repository } from "../../support/repository.mjs"
import { Baton } from "../../support/server.mjs"
import { median } from "./figures.mjs"
import { Probe } from "./probe.mjs"
import { Side } from "./page-side.mjs"

const RUNS = 5
const [FILES, LINES, LONG_LINE] = [500, 200, 1_000_000]

// Address to newest message; within a page, newest and oldest message.
export async function session(browser, side, count) {
  const [other, long] = [await side.short("Before the long one"), await side.long(count)]
  const [loaded, opened, oldest] = [[], [], []]
  let metrics
  const first = (await side.read(`/session/${long}/message`))[0].info.id
  for (let run = 0; run < RUNS; run++) {
    const probe = await Probe.open(browser)
    loaded.push(await probe.load(side.page(long), "Message number last of"))
    metrics = await probe.metrics()
    if (side.isBaton) {
      await probe.load(side.page(other), "A short answer")
      opened.push(await probe.turnTo(side.page(long), "Message number last of"))
      const jump = probe.turnTo(`${side.page(long)}/m/${first}`, "Message number first of")
      oldest.push(await jump.catch(() => undefined))
      metrics = await probe.metrics()
    }
    await probe.context.close()
  }
  return { loaded: median(loaded), opened: median(opened), oldest: oldest.includes(undefined) ? undefined : median(oldest), ...metrics }
}

// Time to show a session that was shown before.
export async function switching(browser, side) {
  const sessions = [await side.long(60, "Seen first"), await side.short("Seen second")]
  const texts = ["Message number last of", "A short answer"]
  const probe = await Probe.open(browser)
  for (const [at, id] of sessions.entries()) await probe.load(side.page(id), texts[at])
  const times = []
  // The first two are not seen before in this page.
  for (let run = 0; run < 2 + 2 * RUNS; run++) {
    const at = run % 2
    times.push(await probe.turnTo(side.page(sessions[at]), texts[at]))
  }
  await probe.context.close()
  return median(times.slice(2))
}

// First line of a diff of many files, and the longest task until its end is on the screen.
export async function review(browser) {
  const body = Array.from({ length: LINES }, (_, at) => `line ${at + 1}\n`).join("")
  const many = (text) =>
    Object.fromEntries(Array.from({ length: FILES - 1 }, (_, at) => [`many/file${String(at).padStart(3, "0")}.txt`, text]))
  const world = await repository(many("one\n"), { ...many(body), "a-long-line.txt": "x".repeat(LONG_LINE) })
  const side = new Side(await Baton.start({ world, args: PAGE_ARGS }), (id) => `#/s/${id}`)
  const times = []
  let longest = 0
  try {
    const id = await side.session("Is large")
    for (let run = 0; run < RUNS; run++) {
      const probe = await Probe.open(browser)
      await probe.load(side.page(id), "Is large")
      await probe.tasks()
      const began = await probe.page.evaluate(() => performance.now())
      await probe.go(`${side.page(id)}?panel=changes&scope=tree`)
      await probe.page.waitForFunction(() => document.querySelector(".diff-line"))
      times.push((await probe.page.evaluate(() => performance.now())) - began)
      await probe.page.locator(".diffs").evaluate((it) => it.scrollTo(0, it.scrollHeight))
      await probe.shows("file498.txt")
      longest = Math.max(longest, ...(await probe.tasks()))
      await probe.context.close()
    }
  } finally {
    await side.server.stop()
  }
  return { first: median(times), longest }
}
