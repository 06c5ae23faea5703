// Logins that plugins bring along: the ways there are, one that is begun, and one that is completed.
import { hide, hideLogin } from "./wire.mjs"

/** How long a login may take that somebody has begun. */
const LOGIN_MS = 15 * 60 * 1000
/** The most ways to log in to one provider, and the most things to ask before. */
const MAX_METHODS = 32

/** Logins that are begun and not completed, by provider. There is one for each at most. */
const begun = new Map()

/** The ways to log in that a plugin brings along, by provider, as clients are told them. */
export function methods(hooks) {
  const ways = {}
  for (const { auth } of hooks) {
    if (typeof auth?.provider === "string" && Array.isArray(auth.methods)) ways[auth.provider] = auth.methods.slice(0, MAX_METHODS).map(shown)
  }
  return ways
}

function shown({ type, label, prompts }) {
  const way = { type: type === "oauth" ? "oauth" : "api", label: String(label) }
  return Array.isArray(prompts) ? { ...way, prompts: prompts.slice(0, MAX_METHODS).map(asked) } : way
}

function asked({ type, key, message, placeholder, options, when }) {
  const rule = when && { key: String(when.key), op: when.op === "neq" ? "neq" : "eq", value: String(when.value) }
  const question = { key: String(key), message: String(message), ...(rule && { when: rule }) }
  if (type !== "select") return { type: "text", ...question, ...(placeholder && { placeholder: String(placeholder) }) }
  const choices = (options ?? []).map(({ label, value, hint }) => ({ label: String(label), value: String(value), ...(hint && { hint: String(hint) }) }))
  return { type: "select", ...question, options: choices }
}

/** Begins a login: where people have to go, or what is wrong with what they have said. */
export async function authorize(hooks, { provider, method, inputs }) {
  const way = hooks.findLast((unit) => unit.auth?.provider === provider)?.auth.methods?.[method]
  if (!way) throw new Error("there is no such login method")
  // Whoever has a key keeps it with PUT /auth.
  if (way.type !== "oauth") return {}
  hide(...Object.values(inputs ?? {}))
  for (const { type, key, validate } of inputs ? (way.prompts ?? []) : []) {
    const wrong = type === "text" && inputs[key] !== undefined ? validate?.(inputs[key]) : undefined
    if (wrong) return { invalid: { field: String(key), message: String(wrong) } }
  }
  const login = await way.authorize(inputs)
  if (typeof login?.callback !== "function") throw new TypeError("what it began cannot be completed")
  keep(provider, login)
  const goal = { url: String(login.url ?? ""), method: login.method === "code" ? "code" : "auto", instructions: String(login.instructions ?? "") }
  return { begun: goal }
}

function keep(provider, login) {
  forget(provider)
  const timer = setTimeout(() => begun.delete(provider), LOGIN_MS)
  timer.unref?.()
  begun.set(provider, { login, timer })
}

function forget(provider) {
  clearTimeout(begun.get(provider)?.timer)
  begun.delete(provider)
}

/** Completes the login of a provider: what came of it, and what lets people in from now on. */
export async function complete({ provider, code }) {
  const { login } = begun.get(provider) ?? {}
  if (!login) return { state: "missing" }
  if (login.method === "code" && !code) return { state: "codeless" }
  hide(code)
  const result = await (login.method === "code" ? login.callback(code) : login.callback())
  if (result?.type !== "success") return { state: "failed" }
  if (begun.get(provider)?.login === login) forget(provider)
  hideLogin(result)
  return { state: "success", login: kept(result) }
}

/** What is kept of a login that worked. A plugin may have kept it by itself. */
function kept({ key, metadata, refresh, access, expires, accountId, enterpriseUrl }) {
  if (refresh !== undefined) return { type: "oauth", refresh, access, expires: Math.round(expires), accountId, enterpriseUrl }
  return key === undefined ? undefined : { type: "api", key, metadata }
}
