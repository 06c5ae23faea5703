// Every theme is readable: text of every kind has enough contrast on every surface it appears on.

import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { test } from "node:test"

const css = ["theme", "preferences"].map((name) => readFileSync(new URL(`../src/style/${name}.css`, import.meta.url), "utf8")).join("\n")

type Colours = Record<string, [string, string]>

function colours(selector: RegExp): Colours {
  const found: Colours = {}
  for (const [, names, body] of css.matchAll(/([^{}]+)\{([^{}]*)\}/g)) {
    if (!selector.test(names!)) continue
    for (const [, name, light, dark] of body!.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)) found[name!] = [light!, dark!]
  }
  return found
}

function luminance(colour: string): number {
  const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255)
  const [red, green, blue] = parts.map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4))
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!
}

function contrast(one: string, two: string): number {
  const [dark, light] = [luminance(one), luminance(two)].sort((left, right) => left - right)
  return (light! + 0.05) / (dark! + 0.05)
}

const PAIRS: [string[], string[]][] = [
  [["text"], ["back", "raised", "sunken", "tint", "add", "remove", "add-mark", "remove-mark", "warn-tint", "hover"]],
  [["muted"], ["back", "raised", "sunken", "tint", "add", "remove"]],
  [["accent", "good", "bad", "warn"], ["back", "raised", "sunken", "tint"]],
  [["warn"], ["warn-tint"]],
  [["on-accent"], ["accent"]],
  [["back"], ["warn"]],
]

const base = colours(/^\s*:root,\s*\[data-theme="baton"\]/)
const names = [...css.matchAll(/\[data-theme="(\w+)"\]/g)].map((match) => match[1]!)
const themes = [...new Set(names)]

test("there are six themes", () => assert.equal(themes.length, 6))

for (const isHigh of [false, true]) {
  for (const theme of themes) {
    test(`${theme}${isHigh ? " with high contrast" : ""} is readable`, () => {
      const high = isHigh ? colours(/data-contrast="more"/) : {}
      const all: Colours = { ...base, ...colours(new RegExp(`data-theme="${theme}"`)), ...high }
      // A hovered row has the colour of lines, unless lines are dark.
      all.hover ??= all.line!
      for (const [texts, surfaces] of PAIRS) {
        for (const text of texts) {
          for (const surface of surfaces) {
            for (const mode of [0, 1] as const) {
              const found = contrast(all[text]![mode], all[surface]![mode])
              assert.ok(found >= 4.5, `${text} on ${surface}, ${mode ? "dark" : "light"}: ${found.toFixed(2)}`)
            }
          }
        }
      }
    })
  }
}
