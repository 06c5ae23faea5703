// The client that plugins get: OpenCode's SDK, with both forms of arguments. Every call is marked as a plugin's.

/** Tells the server that a plugin makes a call: its prompts belong to the episode of the user's last prompt. */
const SENDER = ["x-baton-sender", "plugin"]
/** The keys of the older form, in which the parts of the request are separate objects. */
const PARTS = new Set(["path", "query", "body", "headers", "throwOnError", "signal", "url", "client", "fetch", "parseAs"])

/** Marks the calls of this process to the server, because plugins also create clients of their own. */
export function markCalls(serverUrl) {
  const [unmarked, { origin }] = [globalThis.fetch, new URL(serverUrl)]
  const marked = (input, init) => {
    const address = input instanceof Request ? input.url : String(input)
    if (!URL.canParse(address) || new URL(address).origin !== origin) return unmarked(input, init)
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined))
    headers.set(...SENDER)
    return unmarked(input, { ...init, headers })
  }
  globalThis.fetch = Object.assign(marked, unmarked)
}

/** Creates the client. If the SDK is not installed, each use of the client throws. */
export async function createClient(options) {
  // The SDK changes the options that it gets.
  const configured = () => ({ ...options, headers: { ...options.headers } })
  const sdk = await import("@opencode-ai/sdk/client").catch(() => ({}))
  if (!sdk.createOpencodeClient) return missing()
  const client = sdk.createOpencodeClient(configured())
  const newer = await import("@opencode-ai/sdk/v2/client").catch(() => ({}))
  if (newer.createOpencodeClient) acceptFlat(client, newer.createOpencodeClient(configured()))
  return client
}

function missing() {
  const fail = () => {
    throw new Error("there is no client: the package @opencode-ai/sdk could not be installed into Baton's cache")
  }
  return new Proxy({}, { get: (_, name) => (name === "then" ? undefined : fail()) })
}

/** Lets methods of the client also take the newer SDK's flat form, such as `session.messages({ sessionID })`. */
function acceptFlat(client, newer) {
  for (const [name, group] of Object.entries(client)) {
    if (name.startsWith("_") || group === null || typeof group !== "object") continue
    for (const method of Object.getOwnPropertyNames(Object.getPrototypeOf(group))) {
      const [older, other] = [group[method], newer[name]?.[method]]
      if (method === "constructor" || typeof older !== "function" || typeof other !== "function") continue
      group[method] = (input, ...rest) => (isFlat(input) ? other.call(newer[name], input, ...rest) : older.call(group, input, ...rest))
    }
  }
}

/** True if the arguments are the fields themselves. `path` and `query` are objects in the older form. */
function isFlat(input) {
  if (input === null || typeof input !== "object") return false
  return Object.entries(input).some(([key, value]) => !PARTS.has(key) || (/^(path|query)$/.test(key) && typeof value === "string"))
}
