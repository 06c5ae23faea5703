// Does in one hook what no plugin should. Which and what is written in the directory it works in.

import { readFileSync } from "node:fs"
import path from "node:path"

const never = () => new Promise(() => {})

const troubles = {
  throws: () => {
    throw new Error("trouble on purpose")
  },
  hangs: never,
  spins: () => {
    for (;;);
  },
  exits: () => process.exit(3),
  floods: () => {
    for (let count = 0; count < 200; count += 1) process.stdout.write("x".repeat(64 * 1024))
    return never()
  },
}

export const Trouble = async ({ directory }) => {
  const { hook, how } = JSON.parse(readFileSync(path.join(directory, "trouble.json"), "utf8"))
  return { [hook]: troubles[how] }
}
