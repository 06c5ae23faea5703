// Provider hooks of plugins: lists of models, the use of logins, and calls to providers.
import { describe, hide, hideLogin } from "./wire.mjs"

/** Maximum size of a piece of an answer, in bytes. */
const MAX_PIECE = 256 * 1024
/** Headers about the encoding of an answer, which `fetch` has already decoded. */
const PACKING = new Set(["content-encoding", "content-length", "transfer-encoding"])
/** Messages and codes of network failures in Node and Bun. */
const NETWORK = /^(fetch failed|failed to fetch|unable to connect|network|socket|the socket|connection)|ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EPIPE/i

/** Functions for calls that Baton holds, and answers that it is reading. */
const fetches = new Map()
const answers = new Map()
let next = 1

/** The providers whose models a plugin lists, and those whose logins it uses. */
export function shaped(hooks) {
  const ids = (found) => [...new Set(found.filter((id) => typeof id === "string"))]
  return {
    models: ids(hooks.map((unit) => typeof unit.provider?.models === "function" && unit.provider.id)),
    loaders: ids(hooks.map((unit) => typeof unit.auth?.loader === "function" && unit.auth.provider)),
  }
}

/** Calls a plugin's hooks that list the models of a provider. */
export async function models(hooks, { provider, login }) {
  hideLogin(login)
  let listed = provider.models
  for (const unit of hooks) {
    if (unit.provider?.id !== provider.id || typeof unit.provider.models !== "function") continue
    listed = await unit.provider.models(structuredClone({ ...provider, models: listed }), { auth: login ?? undefined })
    if (listed === null || typeof listed !== "object") throw new TypeError("its list of models is not an object")
  }
  return listed
}

/** Calls a plugin's loaders of a login, which return options, prices and a function for calls. */
export async function load(hooks, { provider }, wire) {
  const auth = async () => {
    const login = await wire.request("auth.get", { provider: provider.id })
    hideLogin(login)
    return login ?? undefined
  }
  const loaded = { options: {}, costs: {} }
  for (const { auth: hook } of hooks) {
    if (hook?.provider !== provider.id || typeof hook.loader !== "function") continue
    const shown = structuredClone(provider)
    const { fetch, ...options } = (await hook.loader(auth, shown)) ?? {}
    Object.assign(loaded.options, options)
    Object.assign(loaded.costs, changed(provider.models, shown.models))
    if (typeof fetch === "function") loaded.fetch = hold(fetch, loaded.fetch)
  }
  hide(loaded.options.apiKey, ...Object.values(loaded.options.headers ?? {}))
  return loaded
}

/** The costs of models whose price has changed. */
function changed(before, after) {
  const costs = Object.entries(after ?? {}).map(([id, model]) => [id, model?.cost])
  return Object.fromEntries(costs.filter(([id, cost]) => cost && JSON.stringify(cost) !== JSON.stringify(before?.[id]?.cost)))
}

function hold(fetch, instead) {
  fetches.delete(instead)
  fetches.set(next, fetch)
  return next++
}

/** Releases a function for calls. */
export function release({ fetch }) {
  fetches.delete(fetch)
}

/** Makes a call with a plugin's function. Returns the status and the headers of the answer. */
export async function call({ fetch, url, headers, body }, abort) {
  const made = fetches.get(fetch)
  if (!made) throw new Error("the plugin's function for calls was released")
  let response
  try {
    response = await made(url, { method: "POST", headers, body, signal: abort.signal })
    if (typeof response?.status !== "number" || !response.headers?.[Symbol.iterator]) throw new TypeError("its `fetch` did not return a response")
  } catch (error) {
    return { failed: describe(error), isNetwork: isNetwork(error) }
  }
  const reader = response.body?.getReader()
  if (abort.signal.aborted) {
    reader?.cancel().catch(() => {})
    return { failed: "the call was aborted", isNetwork: false }
  }
  answers.set(next, { reader, abort, rest: Buffer.alloc(0) })
  const told = [...response.headers].filter(([name]) => !PACKING.has(name.toLowerCase()))
  return { status: response.status, headers: Object.fromEntries(told), answer: next++ }
}

function isNetwork(error) {
  const causes = [error, error?.cause].filter(Boolean)
  return causes.some(({ code, message }) => NETWORK.test(code ?? "") || NETWORK.test(message ?? ""))
}

/** The next piece of an answer; `undefined` at its end. */
export async function read({ answer }) {
  const open = answers.get(answer)
  if (!open) throw new Error("the answer has already ended")
  try {
    while (open.rest.length === 0) {
      const { done, value } = (await open.reader?.read()) ?? { done: true }
      if (done) return close({ answer })
      open.rest = bytes(value)
    }
  } catch (error) {
    close({ answer })
    throw error
  }
  const piece = open.rest.subarray(0, MAX_PIECE)
  open.rest = open.rest.subarray(piece.length)
  return piece.toString("base64")
}

function bytes(value) {
  if (typeof value === "string") return Buffer.from(value)
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
}

/** Aborts an answer that Baton no longer reads. */
export function close({ answer }) {
  const open = answers.get(answer)
  answers.delete(answer)
  if (!open) return
  open.abort.abort()
  open.reader?.cancel().catch(() => {})
}
