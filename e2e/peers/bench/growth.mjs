// How Baton's cost grows with its store, a session, its subscribers and a worktree. Prints a table; nothing here passes
// or fails. Memory and CPU time depend little on the load of the machine, so they are comparable between runs.
//
// `cargo xtask bench growth [sessions|messages|subscribers|files]…`

import { execFileSync } from "node:child_process"
import { mkdir, writeFile } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import { parseArgs } from "node:util"
import { createWorld } from "../support/peers.mjs"
import { Quick } from "./quick.mjs"
import { Side } from "./side.mjs"

const TURNS = 20
const STEPS = 20
const LISTS = 20
// Calls that are made at once while a store is filled.
const WRITERS = 64
const FILES_PER_FOLDER = 100

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]
const ms = (value) => `${value < 100 ? value.toFixed(1) : value.toFixed(0)} ms`
const mib = (bytes) => `${(bytes / 1024 / 1024).toFixed(1)} MiB`

// Calls a function so many times, several at once.
async function many(count, act) {
  let next = 0
  const work = async () => {
    while (next < count) await act(next++)
  }
  await Promise.all(Array.from({ length: Math.min(WRITERS, count) }, work))
}

// Each subject: its sizes, and how a world or a server gets that size. `fill` returns the session to measure, if it has
// to be a particular one.
const SUBJECTS = {
  sessions: {
    sizes: [1, 100, 10_000],
    fill: (side, size) => many(size, () => side.session()),
  },
  messages: {
    sizes: [10, 1_000, 20_000],
    fill: async (side, size) => {
      const session = await side.session()
      const parts = [{ type: "text", text: "A message of a long session, about as long as a short question." }]
      await many(size, () => side.call("POST", `/session/${session}/message`, { parts, noReply: true }))
      return session
    },
  },
  subscribers: {
    sizes: [1, 100, 2_000],
    join: (side, size) => many(size - 1, () => side.listen(false)),
  },
  files: {
    sizes: [100, 10_000, 100_000],
    found: async (world, size) => {
      for (let file = 0; file < size; file += FILES_PER_FOLDER) {
        const folder = path.join(world.project, `folder-${file}`)
        await mkdir(folder)
        const names = Array.from({ length: FILES_PER_FOLDER }, (_, index) => path.join(folder, `${index}.txt`))
        await Promise.all(names.map((name) => writeFile(name, `The text of ${name}.\n`)))
      }
      const git = (...args) => execFileSync("git", args, { cwd: world.project, env: world.env(), stdio: "ignore" })
      git("add", ".")
      git("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "--quiet", "--message", "Files")
    },
  },
}

async function measure(model, { fill, join, found }, size) {
  const world = await createWorld(model)
  await found?.(world, size)
  let side = await Side.start("baton", model, world)
  const session = await fill?.(side, size)
  // Started again, so that memory and start belong to what is stored and not to how it was written.
  await side.end()
  side = await Side.start("baton", model, world)
  try {
    const [start, healthy] = [side.healthy, side.memory]
    await side.listen()
    await join?.(side, size)
    const turn = async (text) => side.turn(typeof session === "string" ? session : await side.session(), text)
    const opening = await turn("hello")
    const firsts = []
    const before = side.cpu
    for (let count = 0; count < TURNS; count++) {
      const { sent, first } = await turn("hello")
      firsts.push(first - sent)
    }
    const cpu = (side.cpu - before) / TURNS
    const { sent, idle } = await turn(`steps ${STEPS}`)
    const lists = []
    for (let count = 0; count < LISTS; count++) {
      const began = performance.now()
      await side.call("GET", "/session?limit=50")
      lists.push(performance.now() - began)
    }
    return [
      ms(start),
      mib(healthy),
      ms(opening.first - opening.sent),
      ms(median(firsts)),
      ms(cpu),
      ms((idle - sent) / STEPS),
      ms(median(lists)),
      mib(side.memory),
    ]
  } finally {
    await side.stop()
  }
}

const { positionals } = parseArgs({ allowPositionals: true })
const model = await Quick.start()
const rows = []
for (const [name, subject] of Object.entries(SUBJECTS)) {
  if (positionals.length && !positionals.includes(name)) continue
  for (const size of subject.sizes) {
    rows.push([`${size.toLocaleString("en")} ${name}`, ...(await measure(model, subject, size)), os.loadavg()[0].toFixed(1)])
    console.error(rows.at(-1).join(" | "))
  }
}
await model.stop()
const times = ["first delta, first turn", "first delta", "CPU of a turn", "tool step", "list of 50"]
const heads = ["with", "start", "memory", ...times, "memory after", "load"]
console.log(`| ${heads.join(" | ")} |\n|${"---|".repeat(heads.length)}`)
for (const cells of rows) console.log(`| ${cells.join(" | ")} |`)
