// All methods of both clients of OpenCode's SDK, found by inspecting the clients, with plausible arguments. The path of a
// method comes from its source, the parameters of the path from OpenCode's OpenAPI document.

import { readFileSync } from "node:fs"
import { readFile } from "node:fs/promises"

const CONTRACT = new URL("../../crates/server/tests/fixtures/opencode-contract.json", import.meta.url)

// A path without the names of its parameters, because the two clients use different names.
const shape = (path) => path.replaceAll(/\{[^}]*\}/g, "{}")

// The contract by method and shape of the path.
export async function operations() {
  const { operations } = JSON.parse(await readFile(CONTRACT, "utf8"))
  return new Map(operations.map((operation) => [`${operation.method} ${shape(operation.path)}`, operation]))
}

// `{ name, call, method, path, takes, isStream }` for each method, with the namespaces in its name.
export function methods(client, name = "") {
  const found = []
  for (const [key, fn] of functions(client)) {
    const source = fn.toString()
    const path = /url: "([^"]+)"/.exec(source)?.[1]
    const verb = /\)\s*\.(?:sse\.)?(get|post|put|patch|delete)\b/.exec(source)?.[1]
    if (!path || !verb) continue
    const isStream = /\.sse\b/.test(source)
    const call = (...args) => fn.call(client, ...args)
    found.push({ name: name + key, call, method: verb, path, takes: takes(source), isStream })
  }
  for (const [key, value] of namespaces(client)) found.push(...methods(value, `${name}${key}.`))
  return found
}

function* functions(object) {
  const prototype = Object.getPrototypeOf(object)
  for (const [key, { value }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
    if (typeof value === "function" && key !== "constructor") yield [key, value]
  }
}

// The first client has its namespaces as fields, the second as getters.
function* namespaces(object) {
  const getters = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(object))
  const names = [...Object.keys(object), ...Object.keys(getters).filter((key) => getters[key].get)]
  for (const key of names.filter((name) => !/^_|^client$/.test(name))) {
    const value = object[key]
    if (value && typeof value === "object") yield [key, value]
  }
}

// The arguments of the second client's methods: their names and places.
function takes(source) {
  const objects = source.matchAll(/\{([^{}]*\bkey: "[^"]+"[^{}]*)\}/g)
  return [...objects].map(([, text]) => {
    const field = (name) => new RegExp(`\\b${name}: "([^"]+)"`).exec(text)?.[1]
    return { key: field("key"), place: field("in") ?? field("map"), name: field("map") ?? field("key") }
  })
}

// Queries that a call requires.
const QUERIES = {
  "/find": { pattern: "project" },
  "/find/file": { query: "README" },
  "/find/symbol": { query: "main" },
  "/file": { path: "." },
  "/file/content": { path: "README.md" },
  "/vcs/diff": { mode: "git" },
  "/experimental/tool": { provider: "demo", model: "simple" },
  "/api/fs/list": { path: "." },
  "/api/fs/find": { query: "README" },
}

// Bodies whose fields have another meaning than elsewhere.
const BODIES = {
  "put /auth/{}": { type: "api", key: "not-a-key" },
  "patch /config": {},
  "patch /global/config": {},
  "post /session/{}/command": { command: "init", arguments: "" },
  "patch /session/{}": { title: "Another title" },
  "post /session/{}/shell": { agent: "build", command: "echo one" },
  "post /tui/execute-command": { command: "session_list" },
  "post /tui/publish": { type: "tui.prompt.append", properties: { text: "hello" } },
  "post /mcp": { name: "nobody", config: { type: "local", command: ["true"], enabled: false } },
  "post /api/session/{}/model": { model: { id: "simple", providerID: "demo" } },
  "post /pty": { command: "true" },
  "post /api/pty": { command: "true" },
}

// The value of a parameter or field, by its name. `known` has the ids of an existing session and its contents.
function value(name, known, path = "") {
  const values = {
    ...known,
    parts: [{ type: "text", text: "hello" }],
    prompt: { text: "hello" },
    destination: { directory: known.directory },
    providerID: "demo",
    modelID: "simple",
    projectID: "global",
    permissionID: "per_000000000001AAAAAAAAAAAAAA",
    ptyID: "pty_000000000001AAAAAAAAAAAAAA",
    requestID: `${/question/.test(path) ? "que" : "per"}_000000000001AAAAAAAAAAAAAA`,
    name: "nobody",
    answers: [["Blue"]],
    reply: "once",
    response: "once",
    method: 0,
    inputs: {},
    resources: ["*"],
    events: [],
    level: "info",
    variant: "info",
    target: "1.18.33",
    force: false,
    patch: "",
    id: known.sessionID,
    type: "text",
  }
  return values[name] ?? "something"
}

// The arguments of a call by place: `{ path, query, body }`.
export function parameters({ method, path }, operation, known) {
  const names = [...path.matchAll(/\{([^}]*)\}/g)].map(([, name]) => name)
  // The first client names every session just `id`, and so on.
  const official = [...operation.path.matchAll(/\{([^}]*)\}/g)].map(([, name]) => name)
  const required = operation.body?.required ?? []
  const special = BODIES[`${method} ${shape(path)}`]
  const body = special ?? Object.fromEntries(required.map((name) => [name, value(name, known)]))
  if (operation.operationId === "part.update") Object.assign(body, known.part)
  return {
    path: Object.fromEntries(names.map((name, at) => [name, value(official[at] ?? name, known, path)])),
    query: QUERIES[path] ?? {},
    body: operation.body ? body : undefined,
  }
}

// The same for the second client, which takes everything in one object, or nothing at all.
export function flat({ takes }, { path, query, body }) {
  if (!takes.length) return []
  const all = { path, query, body: body ?? {} }
  const entries = takes.map(({ key, place, name }) => [key, name === "body" ? body : all[place]?.[name]])
  return [Object.fromEntries(entries.filter(([, value]) => value !== undefined))]
}

const TYPES = { v1: "@opencode-ai/sdk", v2: "@opencode-ai/sdk/v2" }

// The names of the types of answers that a client exports.
export function typeNames(client) {
  const entry = new URL(import.meta.resolve(TYPES[client]))
  const text = readFileSync(new URL("gen/types.gen.d.ts", entry), "utf8")
  return new Set([...text.matchAll(/export type (\w+Responses)\b/g)].map(([, name]) => name))
}
