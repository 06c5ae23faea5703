// A list of paths as a tree whose folders with a single folder inside are joined.

export interface Leaf<T> {
  kind: "file"
  name: string
  path: string
  depth: number
  value: T
}

export interface Folder {
  kind: "folder"
  name: string
  path: string
  depth: number
}

interface Node<T> {
  folders: Map<string, Node<T>>
  files: { name: string; path: string; value: T }[]
}

// Rows of the tree, folders first, each level sorted by name.
export function treeRows<T>(entries: { path: string; value: T }[], closed: Set<string> = new Set()): (Leaf<T> | Folder)[] {
  const root: Node<T> = { folders: new Map(), files: [] }
  for (const { path, value } of entries) {
    const parts = path.split("/").filter(Boolean)
    let node = root
    for (const part of parts.slice(0, -1)) {
      const next = node.folders.get(part) ?? { folders: new Map(), files: [] }
      node.folders.set(part, next)
      node = next
    }
    node.files.push({ name: parts.at(-1) ?? path, path, value })
  }
  const rows: (Leaf<T> | Folder)[] = []
  list(root, "", 0, closed, rows)
  return rows
}

const byName = (left: { name: string }, right: { name: string }) => (left.name < right.name ? -1 : left.name > right.name ? 1 : 0)

function list<T>(node: Node<T>, prefix: string, depth: number, closed: Set<string>, rows: (Leaf<T> | Folder)[]) {
  const folders = [...node.folders].map(([name, inner]) => ({ name, inner })).sort(byName)
  for (const folder of folders) {
    let { name, inner } = folder
    while (inner.files.length === 0 && inner.folders.size === 1) {
      const [next] = inner.folders
      name = `${name}/${next![0]}`
      inner = next![1]
    }
    const path = prefix + name
    rows.push({ kind: "folder", name, path, depth })
    if (!closed.has(path)) list(inner, `${path}/`, depth + 1, closed, rows)
  }
  for (const file of node.files.sort(byName)) rows.push({ kind: "file", depth, ...file })
}
