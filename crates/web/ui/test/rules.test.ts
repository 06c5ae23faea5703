// Rules about the page's sources and its build that no compiler checks.

import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { test } from "node:test"
import { fileURLToPath } from "node:url"
import { gzipSync } from "node:zlib"

const UI = fileURLToPath(new URL("..", import.meta.url))

const list = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(folder, entry.name)
    return entry.isDirectory() ? list(file) : [file]
  })

const sources = list(path.join(UI, "src"))

test("text of others never reaches a parser: only dom.ts touches markup", () => {
  const forbidden =
    /innerHTML|outerHTML|insertAdjacentHTML|DOMParser|createContextualFragment|document\.write|\beval\(|new Function|javascript:|srcdoc/
  for (const file of sources.filter((name) => !name.endsWith("dom.ts"))) {
    assert.doesNotMatch(readFileSync(file, "utf8"), forbidden, file)
  }
})

test("the core knows neither the browser nor a framework nor a clock", () => {
  const core = path.join(UI, "src/core") + path.sep
  for (const file of sources.filter((name) => name.startsWith(core))) {
    const text = readFileSync(file, "utf8")
    assert.doesNotMatch(text, /solid-js|\bdocument\.|\bwindow\.(?!entries|older|gap|partial|stale|read)|Date\.now|Math\.random|\bfetch\(|setTimeout/, file)
    for (const [, from] of text.matchAll(/from "([^"]+)"/g)) assert.match(from!, /^\.\/\w+\.ts$/, file)
  }
})

test("packages are pinned, and the lock file names no registry", () => {
  const { dependencies, devDependencies } = JSON.parse(readFileSync(path.join(UI, "package.json"), "utf8"))
  for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies })) {
    assert.match(String(version), /^\d+\.\d+\.\d+$/, name)
  }
  assert.ok(Object.keys(dependencies).length <= 8)
  assert.doesNotMatch(readFileSync(path.join(UI, "package-lock.json"), "utf8"), /"resolved"/)
})

test("two builds give the same files, within their budgets", () => {
  const root = mkdtempSync(path.join(tmpdir(), "baton-page-"))
  try {
    const build = (name: string) => {
      const out = path.join(root, name)
      const vite = ["node_modules/vite/bin/vite.js", "build", "--logLevel", "error", "--outDir", out]
      execFileSync(process.execPath, vite, { cwd: UI, stdio: "pipe" })
      return Object.fromEntries(list(out).map((file) => [path.relative(out, file), readFileSync(file)]))
    }
    const [one, two] = [build("one"), build("two")]
    assert.deepEqual(one, two)
    const size = (names: string[]) => names.reduce((sum, name) => sum + gzipSync(one[name]!, { level: 9 }).length, 0)
    const names = Object.keys(one)
    // The first load is what the document names; everything else is loaded when it is needed.
    const first = names.filter((name) => name === "index.html" || one["index.html"]!.includes(path.basename(name)))
    const script = size(first.filter((name) => name.endsWith(".js")))
    const style = size(first.filter((name) => name.endsWith(".css")))
    assert.ok(script <= 90 * 1024, `${script} bytes of script`)
    assert.ok(style <= 16 * 1024, `${style} bytes of style`)
    assert.ok(size(first) <= 115 * 1024, `${size(first)} bytes in the first load`)
    assert.ok(size(names) <= 450 * 1024, `${size(names)} bytes in all`)
    assert.ok(statSync(path.join(root, "one/index.html")).size > 0)
  } finally {
    rmSync(root, { recursive: true })
  }
})
