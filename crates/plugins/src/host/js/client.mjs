// The client that plugins get: OpenCode's SDK, marked as a plugin's, with both forms of arguments.

/** Tells the server that a plugin makes the call: its prompts belong to the episode of the user's last prompt. */
const SENDER = { "x-baton-sender": "plugin" }
/** The keys of the older form, in which the parts of the request are separate objects. */
const PARTS = new Set(["path", "query", "body", "headers", "throwOnError", "signal", "url", "client", "fetch", "parseAs"])

/** Creates the client. If the SDK is not installed, each use of the client throws. */
export async function createClient({ headers, ...options }) {
  const configured = () => ({ ...options, headers: { ...headers, ...SENDER } })
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
