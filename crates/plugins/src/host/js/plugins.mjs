// Loads plugins: finds the entry file of a module, distinguishes the two forms of modules and calls their exports.
import { existsSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"

const CONDITIONS = ["bun", "import", "node", "module", "default"]
const INDEXES = ["index.ts", "index.js", "index.mjs", "index.cjs"]

/** The hooks of all exports of a plugin's module, in order. */
export async function load({ file, isFile, options }, input) {
  const module = await import(file)
  const units = servers(module, isFile)
  const all = []
  for (const server of units) all.push((await server(input, options)) ?? {})
  return all
}

/** The entry file: the file itself, or the one that a package names. */
export function entry(url) {
  const path = fileURLToPath(url)
  if (!existsSync(path) || !statSync(path).isDirectory()) return url
  const manifest = join(path, "package.json")
  const about = existsSync(manifest) ? JSON.parse(readFileSync(manifest, "utf8")) : {}
  const named = [choose(about.exports?.["./server"]), about.main, choose(about.exports?.["."] ?? about.exports), ...INDEXES]
  const files = named.filter((name) => typeof name === "string").map((name) => join(path, name))
  const found = files.find((file) => existsSync(file) && statSync(file).isFile())
  if (!found) throw new Error(`${path} has no entry file: its package.json names none that exists`)
  return pathToFileURL(found).href
}

function choose(target) {
  if (target === null || typeof target !== "object") return target
  const condition = CONDITIONS.find((condition) => target[condition] !== undefined)
  return condition && choose(target[condition])
}

/** The functions that create a plugin: the `server` of a default export, or every export. */
function servers(module, isFile) {
  const main = module.default
  if (main !== null && typeof main === "object" && ("server" in main || "tui" in main)) {
    if (typeof main.server !== "function") throw new TypeError("the default export has no function `server`")
    if (isFile && typeof main.id !== "string") throw new TypeError("the default export of a file needs an `id`")
    return [main.server]
  }
  const found = new Set()
  for (const [name, value] of Object.entries(module)) {
    const server = typeof value === "function" ? value : value?.server
    if (typeof server !== "function") throw new TypeError(`the export \`${name}\` is not a function`)
    found.add(server)
  }
  if (found.size === 0) throw new TypeError("the module exports nothing")
  return [...found]
}
