// The loader behind `typescript.mjs`.

import { readFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import ts from "typescript"

export async function load(url, context, next) {
  if (!url.endsWith(".ts")) return next(url, context)
  const text = await readFile(fileURLToPath(url), "utf8")
  const { outputText } = ts.transpileModule(text, {
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023, verbatimModuleSyntax: true },
  })
  return { format: "module", shortCircuit: true, source: outputText }
}
