// Rules of accessibility that a page breaks, according to axe.

import assert from "node:assert/strict"
import { readFile } from "node:fs/promises"
import { createRequire } from "node:module"

const source = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")
const RULES = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]

export async function violations(page) {
  // The policy of the page refuses scripts that are not its own, but not those of the debugger.
  await page.evaluate(`${source}; undefined`)
  const { violations: found } = await page.evaluate((runOnly) => axe.run({ runOnly }), RULES)
  return found.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html.slice(0, 160)} ${node.failureSummary ?? ""}`).join("\n")}`)
}

// Fails if axe finds a violation, or if the page scrolls sideways.
export async function accessible(page, name) {
  assert.deepEqual(await violations(page), [], name)
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} scrolls sideways`)
}
