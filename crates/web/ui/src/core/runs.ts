// Highlighted source as runs of text with a class each.

export interface Run {
  text: string
  // The kind of token, such as `keyword`; absent for plain text.
  kind?: string
}

// A node of the tree that the highlighter returns.
interface Node {
  type: string
  value?: string
  properties?: { className?: unknown }
  children?: Node[]
}

// Kinds that have a colour; a token of another kind has that of its parent.
const KINDS = new Set([
  "addition",
  "attr",
  "attribute",
  "built_in",
  "comment",
  "deletion",
  "keyword",
  "literal",
  "meta",
  "name",
  "number",
  "regexp",
  "section",
  "selector-class",
  "selector-id",
  "selector-tag",
  "string",
  "symbol",
  "tag",
  "title",
  "type",
  "variable",
])

export function runsOf(root: Node): Run[] {
  const runs: Run[] = []
  const visit = (node: Node, kind: string | undefined) => {
    if (node.type === "text") {
      const last = runs.at(-1)
      if (last && last.kind === kind) last.text += node.value ?? ""
      else runs.push({ text: node.value ?? "", kind })
      return
    }
    const names = Array.isArray(node.properties?.className) ? node.properties.className : []
    const own = names.map((name) => String(name).replace(/^hljs-/, "")).find((name) => KINDS.has(name))
    for (const child of node.children ?? []) visit(child, own ?? kind)
  }
  visit(root, undefined)
  return runs
}

// The runs of each line.
export function linesOf(runs: Run[]): Run[][] {
  const lines: Run[][] = [[]]
  for (const { text, kind } of runs) {
    text.split("\n").forEach((piece, at) => {
      if (at > 0) lines.push([])
      if (piece !== "") lines.at(-1)!.push({ text: piece, kind })
    })
  }
  return lines
}

const ENDINGS = new Map(Object.entries({
  bash: "bash",
  c: "c",
  cc: "cpp",
  cpp: "cpp",
  css: "css",
  diff: "diff",
  go: "go",
  h: "c",
  hpp: "cpp",
  html: "xml",
  java: "java",
  js: "javascript",
  json: "json",
  jsx: "javascript",
  md: "markdown",
  mjs: "javascript",
  patch: "diff",
  py: "python",
  rs: "rust",
  sh: "bash",
  sql: "sql",
  svg: "xml",
  toml: "ini",
  ts: "typescript",
  tsx: "typescript",
  xml: "xml",
  yaml: "yaml",
  yml: "yaml",
}))
// Words after a fence that are neither an ending nor a grammar.
const OTHERS = new Map([["shell", "bash"], ["console", "bash"], ["python3", "python"], ["golang", "go"]])

const NAMES = new Set([...ENDINGS.values(), ...ENDINGS.keys()])

// The grammar of a file, by its name.
export const grammarOf = (path: string): string | undefined => ENDINGS.get(/\.(\w+)$/.exec(path)?.[1]?.toLowerCase() ?? "")

// The grammar of a code block, by the word after its fence.
export function grammarNamed(word: string | undefined): string | undefined {
  const name = /^[\w+-]+/.exec(word ?? "")?.[0].toLowerCase()
  if (!name || !NAMES.has(name)) return OTHERS.get(name ?? "")
  return ENDINGS.get(name) ?? name
}
