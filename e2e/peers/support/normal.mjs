// Normalises answers and events: replaces ids, times and paths, which differ between runs and machines.

// An id in OpenCode's format, anywhere in a text.
const ID = /\b(ses|msg|prt|per|que|evt)_[0-9a-f]{12}[0-9A-Za-z]{14}\b/g
const TREE = /^[0-9a-f]{40}$/
// Clock times, by the names of the fields that hold them.
const CLOCKS = new Set(["created", "updated", "completed", "start", "end", "time", "compacted", "next"])

export class Normal {
  #names = new Map()
  #counts = new Map()
  #root

  constructor(root) {
    this.#root = root
  }

  // The first session is `ses#1`, and so on: equal streams get equal names.
  #name(id, prefix) {
    if (!this.#names.has(id)) {
      const count = (this.#counts.get(prefix) ?? 0) + 1
      this.#counts.set(prefix, count)
      this.#names.set(id, `${prefix}#${count}`)
    }
    return this.#names.get(id)
  }

  of(value, field) {
    if (Array.isArray(value)) return value.map((item) => this.of(item))
    if (value !== null && typeof value === "object") {
      const entries = Object.entries(value).filter(([, value]) => value !== undefined)
      return Object.fromEntries(entries.map(([name, value]) => [name, this.of(value, name)]))
    }
    if (typeof value === "number" && CLOCKS.has(field)) return "<time>"
    if (typeof value !== "string") return value
    if (field === "projectID") return "<project>"
    if (field === "version") return "<version>"
    if (field === "date") return "<date>"
    if (field === "slug") return "<slug>"
    if (TREE.test(value)) return "<tree>"
    return value.replaceAll(this.#root, "<root>").replaceAll(ID, (id, prefix) => this.#name(id, prefix))
  }
}
