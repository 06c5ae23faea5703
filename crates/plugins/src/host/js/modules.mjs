// Lets Node load plugins that were written for Bun: it removes types from TypeScript, adds missing file extensions, loads
// a `.js` file as a module if it looks like one, and resolves packages that are not installed beside a plugin from here.
import { existsSync, readFileSync, statSync } from "node:fs"
import { fileURLToPath } from "node:url"

const TYPESCRIPT = /\.[mc]?ts$/
const ENDINGS = [".ts", ".js", ".mts", ".mjs", ".cts", ".cjs", "/index.ts", "/index.js"]
/** Bun's names for the directory and the path of a module. */
const PLACE = "import.meta.dir ??= import.meta.dirname; import.meta.path ??= import.meta.filename; "
/** Bun has `require` in every module. */
const REQUIRE = 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url); '
const DECLARES_REQUIRE = /\b(?:const|let|var|function)\s+require\b|\bimport\b[^;]*?\brequire\b[^;]*?\bfrom\b|[,\s]require\s*=(?!=)|\b(?:const|let|var)\s*\{[^}]*\brequire\b[^}]*\}\s*=/

export async function resolve(specifier, context, next) {
  const resolved = await next(specifier, context).catch((error) => {
    const other = specifier.startsWith(".") || /^(file:|\/)/.test(specifier) ? completed(specifier, context.parentURL) : undefined
    if (other) return next(other, context)
    if (/^[\w@]/.test(specifier) && !/^[a-z]+:/.test(specifier)) return borrowed(specifier, context, next, error)
    throw error
  })
  return TYPESCRIPT.test(resolved.url) ? { ...resolved, format: "module" } : resolved
}

/** Resolves a package of this host, if the plugin's own directories do not have it. */
function borrowed(specifier, context, next, error) {
  return next(specifier, { ...context, parentURL: import.meta.url }).catch(() => {
    throw error
  })
}

/** Completes a path without a file extension, or with the extension of the compiled file. */
function completed(specifier, parent) {
  const url = new URL(specifier, parent)
  const path = url.pathname
  const stems = [path, path.replace(/\.([mc]?)js$/, "")]
  const endings = ["", ...ENDINGS]
  const candidates = stems.flatMap((stem) => endings.map((ending) => stem + ending))
  const found = candidates.find((candidate) => isFile(new URL(candidate, url)))
  return found && new URL(found, url).href
}

function isFile(url) {
  return existsSync(url) && statSync(url).isFile()
}

export async function load(url, context, next) {
  const path = url.startsWith("file:") ? fileURLToPath(url) : undefined
  if (!path) return next(url, context)
  if (TYPESCRIPT.test(path)) return { format: "module", shortCircuit: true, source: completedSource(await stripped(path)) }
  if (path.endsWith(".json") && !context.importAttributes?.type) {
    const source = `export default ${readFileSync(path, "utf8")}`
    return { format: "module", shortCircuit: true, source }
  }
  const isOwn = path.endsWith(".js") && !path.includes("/node_modules/")
  if (isOwn || (context.format === "module" && /\.m?js$/.test(path))) {
    const source = readFileSync(path, "utf8")
    const isModule = context.format === "module" || /^\s*(import|export)\b/m.test(source)
    if (isModule) return { format: "module", shortCircuit: true, source: completedSource(source) }
  }
  return next(url, context)
}

/** A module with the names that Bun adds to every module, as far as the module uses them. */
function completedSource(source) {
  const prelude = (/\brequire\b/.test(source) && !DECLARES_REQUIRE.test(source) ? REQUIRE : "") + (/import\.meta\.(dir|path)\b/.test(source) ? PLACE : "")
  return prelude + (source.startsWith("#!") ? `//${source}` : source)
}

async function stripped(path) {
  const { transformSync } = await import("amaro").catch(() => {
    throw new Error("TypeScript needs Bun, or the package amaro in Baton's cache, which could not be installed")
  })
  const { code } = transformSync(readFileSync(path, "utf8"), { mode: "transform", filename: path })
  return code
}
