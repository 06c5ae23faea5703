// Completion in the composer: words at the cursor, the meaning of a text, mentions and the history.

import assert from "node:assert/strict"
import { test } from "node:test"
import { type Mention, history, intentOf, matching, mentionParts, replaceWord, wordAt } from "../src/core/complete.ts"
import { run } from "./support.ts"

test("a mention begins after a space, a command at the beginning of the text", () => {
  const at = (marked: string) => {
    const cursor = marked.indexOf("|")
    const word = wordAt(marked.replace("|", ""), cursor)
    return word && `${word.sign}${word.query} ${word.from}-${word.to}`
  }
  const cases: [string, string | undefined][] = [
    ["@|", "@ 0-1"],
    ["look at @rea|", "@rea 8-12"],
    ["look at @re|adme now", "@re 8-15"],
    ["line\n@a|", "@a 5-7"],
    ["mail me@host|", undefined],
    ["@readme |", undefined],
    ["/re|", "/re 0-3"],
    ["/re|view it", "/re 0-7"],
    ["/review it|", undefined],
    ["see /etc|", undefined],
    ["|", undefined],
  ]
  for (const [text, expected] of cases) assert.equal(at(text), expected, text)
})

test("a choice takes the place of the whole word, with one space after it", () => {
  const replace = (text: string, cursor: number, token: string) => replaceWord(text, wordAt(text, cursor)!, token)
  assert.deepEqual(replace("see @rea", 8, "@README.md"), { text: "see @README.md ", cursor: 15 })
  assert.deepEqual(replace("see @rea now", 7, "@README.md"), { text: "see @README.md now", cursor: 15 })
  assert.deepEqual(replace("/re", 3, "/review"), { text: "/review ", cursor: 8 })
})

test("a text is a prompt, a command, a line for the shell or a command of the page", () => {
  const known = ["review", "stop"]
  const cases: [string, object][] = [
    ["hello", { kind: "prompt" }],
    ["/review main", { kind: "command", name: "review", arguments: "main" }],
    ["/review", { kind: "command", name: "review", arguments: "" }],
    ["/review two\nlines", { kind: "command", name: "review", arguments: "two\nlines" }],
    ["/etc/hosts is wrong", { kind: "prompt" }],
    ["/stop", { kind: "stop" }],
    ["/stop it", { kind: "command", name: "stop", arguments: "it" }],
    ["/compact ", { kind: "compact" }],
    ["!git status", { kind: "shell", command: "git status" }],
    ["! ls\n", { kind: "shell", command: "ls" }],
    ["!", { kind: "prompt" }],
    ["great!", { kind: "prompt" }],
  ]
  for (const [text, expected] of cases) assert.deepEqual(intentOf(text, known), expected, text)
})

test("only mentions that are still in the text become parts, each once", () => {
  const file: Mention = { kind: "file", token: "@src/a b.ts", path: "src/a b.ts" }
  const agent: Mention = { kind: "agent", token: "@explore", name: "explore" }
  const resource: Mention = { kind: "resource", token: "@notes", name: "notes", server: "wiki", uri: "wiki://notes" }
  const parts = mentionParts("ask @explore about @src/a b.ts, and @notes.", [file, file, agent, resource], "/work/it")
  assert.deepEqual(parts, [
    {
      type: "file",
      mime: "text/plain",
      filename: "src/a b.ts",
      url: "file:///work/it/src/a%20b.ts",
      source: { type: "file", path: "src/a b.ts", text: { value: "@src/a b.ts", start: 19, end: 30 } },
    },
    { type: "agent", name: "explore", source: { value: "@explore", start: 4, end: 12 } },
    {
      type: "file",
      mime: "text/plain",
      filename: "notes",
      url: "wiki://notes",
      source: { type: "resource", clientName: "wiki", uri: "wiki://notes", text: { value: "@notes", start: 36, end: 42 } },
    },
  ])
  assert.deepEqual(mentionParts("ask @explorer", [agent], "/"), [], "another word is no mention")
  assert.deepEqual(mentionParts("", [agent, file], "/"), [])
})

test("names that begin with the typed letters come first, and without letters the order stays", () => {
  const names = ["preview", "review", "resume", "stop"]
  assert.deepEqual(matching(names, (it) => it, "re", 2), ["review", "resume"])
  assert.deepEqual(matching(names, (it) => it, "", 10), names)
  assert.deepEqual(matching(names, (it) => it, "xyz", 10), [])
})

test("the history has the user's own texts, the newest first, each once", () => {
  let id = 0
  const S = "ses_a"
  const say = (text: string, more: object = {}, part: object = {}) => {
    const message = `msg_${++id}`
    const info = { role: "user", id: message, sessionID: S, time: { created: id }, ...more }
    return { info, parts: [{ id: `prt_${id}`, sessionID: S, messageID: message, type: "text", text, ...part }] }
  }
  const messages = [
    say("one"),
    say("two"),
    say("one"),
    say("The user ran a command.", { origin: { type: "shell", command: "ls" } }, { synthetic: true }),
    say("Review the changes of main.", { origin: { type: "command", name: "review", arguments: "main" } }),
    say("Go on.", { continues: "msg_1" }),
    say("A plugin wrote this.", { origin: { type: "plugin" } }),
  ]
  const world = run([{ kind: "show", session: S }])
  run([{ kind: "messages", began: world.tick, read: { sessionID: S, messages: messages as never, older: null, range: "newest" } }], world)
  assert.deepEqual(history(world, S), ["/review main", "!ls", "one", "two"])
})
