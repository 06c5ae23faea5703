// Passes a plugin's `console` output on to Baton's log.
import { format } from "node:util"

const LEVELS = ["log", "info", "debug", "warn", "error"]
/** Maximum length of a line. */
const MAX_LENGTH = 2000
/** Maximum number of lines in a second; further ones are only counted. */
const MAX_LINES = 100
const SECOND = 1000

/** Copies every line of `console` to `write`. The output itself stays as it is. */
export function watchConsole(write) {
  let [since, lines] = [Date.now(), 0]
  for (const level of LEVELS) {
    const original = console[level].bind(console)
    console[level] = (...values) => {
      original(...values)
      if (Date.now() - since >= SECOND) {
        if (lines > MAX_LINES) write({ level, message: `${lines - MAX_LINES} more lines were dropped` })
        ;[since, lines] = [Date.now(), 0]
      }
      if (++lines <= MAX_LINES) write({ level, message: format(...values).slice(0, MAX_LENGTH) })
    }
  }
}
