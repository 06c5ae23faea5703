// Logins with methods from plugins: lists the methods, starts a login, and completes it.
import { hide, hideLogin } from "./wire.mjs"

/** Time in which a started login must be completed. */
const LOGIN_MS = 15 * 60 * 1000
/** Limit of login methods per provider, and of inputs per method. */
const MAX_METHODS = 32

/** Started logins that are not completed, at most one per provider. */
const begun = new Map()

/** A plugin's login methods by provider, as clients see them. */
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

/** Starts a login. Returns the address to open, or the input that is invalid. */
export async function authorize(hooks, { provider, method, inputs }) {
  const way = hooks.findLast((unit) => unit.auth?.provider === provider)?.auth.methods?.[method]
  if (!way) throw new Error("there is no such login method")
  // A key is stored with PUT /auth instead.
  if (way.type !== "oauth") return {}
  hide(...Object.values(inputs ?? {}))
  for (const { type, key, validate } of inputs ? (way.prompts ?? []) : []) {
    const wrong = type === "text" && inputs[key] !== undefined ? validate?.(inputs[key]) : undefined
    if (wrong) return { invalid: { field: String(key), message: String(wrong) } }
  }
  const login = await way.authorize(inputs)
  if (typeof login?.callback !== "function") throw new TypeError("its login has no function `callback`, so it cannot be completed")
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

/** Completes the login of a provider. Returns its state, and the credentials on success. */
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

/** The credentials to store. There are none if the plugin has stored them itself. */
function kept({ key, metadata, refresh, access, expires, accountId, enterpriseUrl }) {
  if (refresh !== undefined) return { type: "oauth", refresh, access, expires: Math.round(expires), accountId, enterpriseUrl }
  return key === undefined ? undefined : { type: "api", key, metadata }
}
