// Worlds with plugins. The packages that plugins import come from this repository, so that no test waits for a registry.

import { cp, mkdir, readFile, symlink, writeFile } from "node:fs/promises"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { World } from "./server.mjs"

const PLUGINS = fileURLToPath(new URL("../plugins", import.meta.url))
export const MODULES = fileURLToPath(new URL("../node_modules", import.meta.url))
// The directory in which Baton expects the packages of its plugin host.
export const RUNTIME = "cache/plugins/runtime-1.18.33-1.2.1"

// A world whose cache has the packages of the plugin host, from `modules`.
export async function pluginWorld(modules = MODULES) {
  const world = await World.create()
  const runtime = path.join(world.data, RUNTIME)
  await mkdir(runtime, { recursive: true })
  await symlink(modules, path.join(runtime, "node_modules"))
  return world
}

// Copies plugins of this repository into a directory.
export async function putPlugins(folder, ...names) {
  await mkdir(folder, { recursive: true })
  for (const name of names) await cp(path.join(PLUGINS, name), path.join(folder, name), { recursive: true })
}

// Writes the user's own configuration.
export async function configureUser(world, config, own = {}) {
  const folder = path.join(world.home, "config/opencode")
  await mkdir(folder, { recursive: true })
  await writeFile(path.join(folder, "opencode.json"), JSON.stringify(config))
  await writeFile(path.join(folder, "baton.json"), JSON.stringify(own))
  return folder
}

// The records of the plugin `probe` in a directory.
export async function notes(directory) {
  const text = await readFile(path.join(directory, "notes.jsonl"), "utf8").catch(() => "")
  return text.split("\n").filter(Boolean).map((line) => JSON.parse(line))
}
