// A login for the provider Nebius without a key: three login methods, a loader that turns a login into options, and a `fetch`
// for the calls. The file `door.txt` of the directory has the address that the calls really go to.

import { readFileSync } from "node:fs"
import path from "node:path"
import type { Plugin } from "@opencode-ai/plugin"

const PROVIDER = "nebius"
const HOUR_MS = 3_600_000
// The address in the provider's options; no server answers there.
const FRONT = "https://front.invalid/v1"

const login = (access: string, expires = Date.now() + HOUR_MS) => ({ refresh: "refresh-0123456789", access, expires })

export const Doorman: Plugin = async ({ client, directory }) => {
  const door = () => readFileSync(path.join(directory, "door.txt"), "utf8").trim()
  return {
    auth: {
      provider: PROVIDER,
      async loader(getAuth, provider) {
        const found = await getAuth()
        for (const model of Object.values(provider.models)) model.cost.input = 0
        if (found.type === "api") return { apiKey: found.key, baseURL: door(), headers: { "x-team": found.metadata?.team ?? "none" } }
        return {
          apiKey: "",
          baseURL: FRONT,
          headers: { "x-loaded": "yes" },
          async fetch(input: RequestInfo | URL, init?: RequestInit) {
            let now = await getAuth()
            if (now.type === "oauth" && now.expires < Date.now()) {
              const renewed = { type: "oauth" as const, ...login("renewed-0123456789") }
              await client.auth.set({ path: { id: PROVIDER }, body: renewed })
              now = renewed
            }
            const headers = new Headers(init?.headers)
            headers.set("authorization", `Bearer ${now.type === "oauth" ? now.access : ""}`)
            headers.set("x-fetched", "yes")
            return fetch(String(input).replace(FRONT, door()), { ...init, headers })
          },
        }
      },
      methods: [
        {
          type: "oauth",
          label: "Bring a code back",
          prompts: [
            {
              type: "text",
              key: "team",
              message: "Which team?",
              placeholder: "blue",
              validate: (value) => (value === "blue" ? undefined : "There is no such team"),
            },
            {
              type: "select",
              key: "size",
              message: "How large is it?",
              options: [
                { label: "Small", value: "small", hint: "up to ten" },
                { label: "Large", value: "large" },
              ],
              when: { key: "team", op: "eq", value: "blue" },
            },
          ],
          async authorize(inputs = {}) {
            return {
              url: `https://door.invalid/?team=${inputs.team}`,
              method: "code",
              instructions: "Bring the code back",
              async callback(code) {
                if (code === "trouble") throw new Error(`this code is ${code}`)
                return code === "open-sesame" ? { type: "success", ...login(`token-of-${inputs.team}`) } : { type: "failed" }
              },
            }
          },
        },
        {
          type: "oauth",
          label: "Wait at the door",
          async authorize() {
            return {
              url: "https://door.invalid/wait",
              method: "auto",
              instructions: "Wait",
              // This login has expired before its first use.
              callback: async () => ({ type: "success", ...login("waited-0123456789", 1) }),
            }
          },
        },
        { type: "api", label: "Show a key" },
      ],
    },
    provider: {
      id: PROVIDER,
      async models(provider, { auth }) {
        const [any] = Object.values(provider.models)
        const api = { ...any.api, id: "main", npm: "@ai-sdk/openai-compatible" }
        const capabilities = { ...any.capabilities, toolcall: true, reasoning: false }
        const cost = { input: 3, output: 2, cache: { read: 0, write: 0 } }
        const one = { ...any, api, capabilities, cost, name: `Door for ${auth?.type ?? "nobody"}`, status: "active" as const, options: {}, variants: {} }
        return { "door-1": { ...one, id: "door-1", limit: { context: 50_000, output: 2_000 } } }
      },
    },
  }
}
