// A project that is a git repository, with a first commit and changes after it.

import { execFileSync } from "node:child_process"
import { mkdir, rm, writeFile } from "node:fs/promises"
import path from "node:path"
import { World } from "./server.mjs"

export const write = async (world, name, text) => {
  const file = path.join(world.project, name)
  await mkdir(path.dirname(file), { recursive: true })
  await writeFile(file, text)
}

export function git(world, ...args) {
  const identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
  return execFileSync("git", [...identity, ...args], { cwd: world.project, env: world.env(), encoding: "utf8" })
}

// Files of the first commit, then files as they are now; `null` deletes one.
export async function repository(committed, changed = {}) {
  const world = await World.create()
  git(world, "init", "-q", "-b", "main")
  for (const [name, text] of Object.entries(committed)) await write(world, name, text)
  git(world, "add", "-A")
  git(world, "commit", "-q", "-m", "first")
  for (const [name, text] of Object.entries(changed)) {
    if (text === null) await rm(path.join(world.project, name))
    else await write(world, name, text)
  }
  return world
}
