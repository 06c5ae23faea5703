// Plugins from the registry, as users install them.

import { mkdir, readFile, symlink, writeFile } from "node:fs/promises"
import path from "node:path"
import { pluginWorld } from "../../support/plugins.mjs"
import { createWorld, modules } from "./peers.mjs"

// The version of a package among the peers.
export async function versionOf(name) {
  return JSON.parse(await readFile(path.join(modules, name, "package.json"), "utf8")).version
}

// A world whose project has a plugin from the registry and is trusted.
export async function publishedWorld(model, name) {
  const world = await createWorld(model, await pluginWorld(modules))
  const version = await versionOf(name)
  const file = path.join(world.project, "opencode.json")
  const config = JSON.parse(await readFile(file, "utf8"))
  await writeFile(file, JSON.stringify({ ...config, plugin: [`${name}@${version}`] }))
  // The package was installed while there was a network, into the place where Baton would install it.
  const place = path.join(world.data, `cache/plugins/packages/${name}+${version}`)
  await mkdir(place, { recursive: true })
  await symlink(modules, path.join(place, "node_modules"))
  await world.trust()
  return world
}
