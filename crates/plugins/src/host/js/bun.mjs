// The functions of Bun that plugins use most, for Node. Any other function of Bun is missing, and its user is named in a
// report when the plugin is loaded.
import { accessSync, constants, readFileSync, statSync } from "node:fs"
import { access, readFile, writeFile } from "node:fs/promises"
import { delimiter, isAbsolute, join, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import { shell } from "./shell.mjs"

const isUrl = (path) => path instanceof URL || (typeof path === "string" && path.startsWith("file:"))
const local = (path) => (isUrl(path) ? fileURLToPath(path) : path)

/** The path of a program, or null. */
function which(program, { PATH = process.env.PATH ?? "", cwd = process.cwd() } = {}) {
  const folders = program.includes("/") ? [""] : PATH.split(delimiter).filter(Boolean)
  const files = folders.map((folder) => (isAbsolute(program) ? program : resolve(cwd, join(folder, program))))
  return files.find(isProgram) ?? null
}

function isProgram(file) {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

/** A file that is read when its content is requested. */
function file(path) {
  const name = local(path)
  return {
    name,
    text: () => readFile(name, "utf8"),
    json: async () => JSON.parse(await readFile(name, "utf8")),
    bytes: async () => new Uint8Array(await readFile(name)),
    arrayBuffer: async () => new Uint8Array(await readFile(name)).buffer,
    exists: () => access(name).then(() => true, () => false),
    get size() {
      return statSync(name, { throwIfNoEntry: false })?.size ?? 0
    },
  }
}

/** Writes a file and returns the number of bytes. */
async function write(path, content) {
  const bytes = typeof content === "string" ? Buffer.from(content) : new Uint8Array(await new Response(content).arrayBuffer())
  await writeFile(local(path?.name ?? path), bytes)
  return bytes.length
}

const sleep = (time) => new Promise((done) => setTimeout(done, time instanceof Date ? time - Date.now() : time))

/** Stands in for the global `Bun`. */
export const Bun = { which, file, write, sleep, env: process.env, $: shell({ cwd: undefined }) }

/** The functions of Bun that a module uses and that Node does not have here. */
export function lacking(url) {
  const comments = /\/\*[\s\S]*?\*\/|(?<![:\w"'`])\/\/[^\n]*/g
  const source = readFileSync(fileURLToPath(url), "utf8").replace(comments, "")
  const used = [...source.matchAll(/(?<![\w$.])(?:globalThis\.)?Bun\??\.([A-Za-z]+)/g)].map(([, name]) => name)
  return [...new Set(used)].filter((name) => !(name in Bun))
}
