// Models with their limits, read once per directory.

import { call } from "./api.ts"

export interface Model {
  id: string
  name: string
  limit?: { context?: number }
}

export interface Providers {
  providers: { id: string; name: string; models: Record<string, Model> }[]
}

// Directories whose models are remembered.
const MAX_DIRECTORIES = 20
const known = new Map<string, Promise<Providers>>()

export function providersOf(directory: string | undefined): Promise<Providers> {
  const key = directory ?? ""
  const found = known.get(key)
  if (found) return found
  const made = call("providers", { query: { directory } }).then((it) => it.data)
  made.catch(() => known.delete(key))
  if (known.size >= MAX_DIRECTORIES) known.delete(known.keys().next().value!)
  known.set(key, made)
  return made
}

export async function contextLimit(directory: string, provider: string, model: string): Promise<number | null> {
  const { providers } = await providersOf(directory)
  return providers.find((it) => it.id === provider)?.models[model]?.limit?.context ?? null
}
