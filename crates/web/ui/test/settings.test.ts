// Rules of the settings: quiet hours, keys, and the user's own theme.

import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { test } from "node:test"
import { type Pressed, ACTIONS, DEFAULT_KEYS, chordOf, conflictsOf, isReserved, isTyped } from "../src/core/chords.ts"
import { isQuiet } from "../src/core/quiet.ts"
import { COLOURS, parseTheme } from "../src/core/theme.ts"

const at = (hour: number, minute = 0) => ({ getHours: () => hour, getMinutes: () => minute })

test("quiet hours begin with the first time, end before the second, and may pass midnight", () => {
  for (const [now, from, to, expected] of [
    [at(12), "10:00", "14:00", true],
    [at(10), "10:00", "14:00", true],
    [at(14), "10:00", "14:00", false],
    [at(23), "22:00", "07:00", true],
    [at(6, 59), "22:00", "07:00", true],
    [at(7), "22:00", "07:00", false],
    [at(12), "22:00", "07:00", false],
    [at(12), "", "", false],
    [at(12), "09:00", "", false],
    [at(12), "12:00", "12:00", false],
    [at(12), "25:00", "99:99", false],
  ] as const) {
    assert.equal(isQuiet(now, from, to), expected, `${now.getHours()} in ${from} to ${to}`)
  }
})

const press = (key: string, held: Partial<Pressed> = {}): Pressed => ({ key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...held })

test("a combination is written the same on every keyboard", () => {
  for (const [pressed, chord] of [
    [press("k", { ctrlKey: true }), "Mod+K"],
    [press("k", { metaKey: true }), "Mod+K"],
    [press("F", { ctrlKey: true, shiftKey: true }), "Mod+Shift+F"],
    [press("?", { shiftKey: true }), "?"],
    [press("y"), "Y"],
    [press("Y", { shiftKey: true }), "Shift+Y"],
    [press("+", { ctrlKey: true }), "Mod+Plus"],
    [press("F2", { shiftKey: true }), "Shift+F2"],
    [press("Shift", { shiftKey: true }), undefined],
  ] as const) {
    assert.equal(chordOf(pressed), chord)
  }
})

test("no two actions have the same key in one place, and a change shows when they do", () => {
  for (const action of ACTIONS) assert.deepEqual(conflictsOf(DEFAULT_KEYS, action), [], action)
  const keys = { ...DEFAULT_KEYS, find: DEFAULT_KEYS.palette, nextFile: DEFAULT_KEYS.once }
  assert.deepEqual(conflictsOf(keys, "find"), ["palette"])
  assert.deepEqual(conflictsOf(keys, "palette"), ["find"])
  assert.deepEqual(conflictsOf(keys, "nextFile"), [], "the changes take their keys first")
  assert.ok(Object.values(DEFAULT_KEYS).every((chord) => !isReserved(chord)))
  assert.deepEqual(["Y", "?", "Shift+Y", "Mod+K", "F6", "Alt+P"].map(isTyped), [true, true, true, false, false, false])
})

test("a pasted theme is colours and lengths of known names, and nothing else", () => {
  const { variables, refused } = parseTheme(`
    :root { /* mine */
      --back: #FFF; --text: rgb(1, 2, 3);
      --accent: light-dark(#112233, hsl(10, 20%, 30%));
      --radius: 4px;
      --line: url(https://evil.example/x);
      --muted: var(--text); --unknown: #fff; color: red;
      --raised: light-dark(#fff); --tint: #12345; --sunken: expression(alert(1));
      --radius: 900px;
    }`)
  assert.deepEqual(variables, {
    "--back": "#fff",
    "--text": "rgb(1, 2, 3)",
    "--accent": "light-dark(#112233, hsl(10, 20%, 30%))",
    "--radius": "4px",
  })
  assert.equal(refused.length, 8)
  assert.deepEqual(parseTheme("").variables, {})
  assert.deepEqual(parseTheme("--back: #fff} body {--text:#000").variables, { "--back": "#fff", "--text": "#000" })
})

test("every colour of the built-in themes may be pasted", () => {
  const css = readFileSync(new URL("../src/style/theme.css", import.meta.url), "utf8")
  const names = [...css.matchAll(/--([\w-]+): light-dark/g)].map((match) => match[1]!)
  for (const name of names) assert.ok(COLOURS.some((it) => it === name), name)
})
