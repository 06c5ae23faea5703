// Numbers of a benchmark as text, and the table that they end in.

import os from "node:os"

export const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]
export const percentile = (values, share) => [...values].sort((a, b) => a - b)[Math.ceil(values.length * share) - 1]
export const ms = (value) => (value === undefined || !Number.isFinite(value) ? "not shown" : `${value.toFixed(0)} ms`)
export const kib = (bytes) => `${(bytes / 1024).toFixed(0)} KiB`
export const mib = (bytes) => `${(bytes / 1024 / 1024).toFixed(1)} MiB`

const load = () => os.loadavg()[0].toFixed(1)

// Rows of "what, goal, Baton, reached, OpenCode, load of the machine".
export class Table {
  #rows = []
  #peer

  constructor(peer) {
    this.#peer = peer
  }

  // `show` turns a result into text, `reaches` tells if Baton's result reaches the goal. `results` has one entry for
  // each side: Baton's first, then OpenCode's if it was measured.
  row(what, goal, results, show, reaches) {
    const [baton, peer] = results
    const verdict = reaches ? (reaches(baton) ? "yes" : "no") : ""
    const cells = [what, goal ?? "", show(baton), verdict, peer === undefined ? "–" : show(peer), load()]
    this.#rows.push(cells)
    console.error(cells.join(" | "))
  }

  print() {
    console.log(`| what | goal | Baton | reached | OpenCode ${this.#peer} | load |\n|---|---|---|---|---|---|`)
    for (const cells of this.#rows) console.log(`| ${cells.join(" | ")} |`)
    console.log(`\nMeasured on ${os.cpus().length} cores. The last column is the load of the machine when the row was complete.`)
  }
}
