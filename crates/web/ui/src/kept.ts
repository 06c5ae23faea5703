// Values that this browser keeps, shared by its tabs. A browser without storage keeps them for the life of the page.

import { type Accessor, createSignal } from "solid-js"

const PREFIX = "baton "

function read(key: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + key) ?? "null")
  } catch {
    return null
  }
}

const listeners = new Map<string, () => void>()

window.addEventListener("storage", (event) => {
  if (event.key?.startsWith(PREFIX)) listeners.get(event.key.slice(PREFIX.length))?.()
})

// A signal whose value survives a reload and reaches other tabs.
export function stored<T>(key: string, initial: T): [Accessor<T>, (value: T) => void] {
  const load = () => (read(key) as T | null) ?? initial
  const [value, setValue] = createSignal<T>(load())
  listeners.set(key, () => setValue(() => load()))
  const save = (next: T) => {
    setValue(() => next)
    try {
      if (next === initial) localStorage.removeItem(PREFIX + key)
      else localStorage.setItem(PREFIX + key, JSON.stringify(next))
    } catch {
      // The storage is full or forbidden.
    }
  }
  return [value, save]
}

// One value per session in a single entry; the oldest entries go first.
export function storedBySession<T>(key: string, limit: number) {
  const [all, save] = stored<Record<string, T>>(key, {})
  return {
    get: (session: string): T | undefined => all()[session],
    set(session: string, value: T | undefined) {
      const { [session]: _, ...others } = all()
      const kept = Object.entries(others).slice(-(limit - 1))
      save(Object.fromEntries(value === undefined ? kept : [...kept, [session, value]]))
    },
  }
}

// Sizes of what this browser keeps, in characters, by kind of value.
export function usage(): { name: string; size: number }[] {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX))
    const sizes = new Map<string, number>()
    for (const key of keys) {
      const name = key.slice(PREFIX.length).split(" ")[0]!
      sizes.set(name, (sizes.get(name) ?? 0) + key.length + (localStorage.getItem(key)?.length ?? 0))
    }
    return [...sizes].map(([name, size]) => ({ name, size }))
  } catch {
    return []
  }
}

export function clearStorage() {
  for (const key of Object.keys(localStorage).filter((name) => name.startsWith(PREFIX))) localStorage.removeItem(key)
}
