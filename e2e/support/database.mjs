// The database of a server that is stopped, changed with the program `sqlite3`.

import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import path from "node:path"

const DAY_MS = 24 * 60 * 60 * 1000

const isPresent = () => {
  try {
    execFileSync("sqlite3", ["--version"], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
}

// The options of a test that needs the program: skipped with a message without it.
export function needsSqlite() {
  if (isPresent()) return {}
  console.error("SKIPPED: sqlite3 is not installed, so no log was made old")
  return { skip: "sqlite3 is not installed" }
}

// Makes all events of the log older, so that the server removes those beyond its limit when it starts.
export function age(world, days) {
  const database = path.join(world.data, "baton.db")
  const output = execFileSync("sqlite3", [database, `UPDATE log SET at = at - ${days * DAY_MS}; SELECT changes();`], { encoding: "utf8" })
  assert.ok(Number(output) > 0, "the log has events")
}
