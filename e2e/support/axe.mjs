// Rules of accessibility that a page breaks, according to axe.

import { readFile } from "node:fs/promises"
import { createRequire } from "node:module"

const source = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")
const RULES = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]

export async function violations(page) {
  await page.evaluate(`${source}; undefined`)
  const { violations: found } = await page.evaluate((runOnly) => axe.run({ runOnly }), RULES)
  return found.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html.slice(0, 160)} ${node.failureSummary ?? ""}`).join("\n")}`)
}
