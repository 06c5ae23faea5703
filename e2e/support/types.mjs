// Checks answers against the types of the SDK. The SDK checks nothing at run time, so the TypeScript compiler does: it
// compiles a program that assigns each answer to its type.

import { once } from "node:events"
import { fileURLToPath } from "node:url"
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads"
import ts from "typescript"

const FILE = fileURLToPath(new URL("../answers.ts", import.meta.url))

// Additional fields are allowed, as for any client; missing and wrong fields are not.
const HEAD = `import type * as v1 from "@opencode-ai/sdk"
import type * as v2 from "@opencode-ai/sdk/v2"
declare function fits<T>(): <const V extends T>(value: V) => void
`

// Returns one sentence for each answer that does not match. An answer is `{ name, type, value }`. The compiler takes seconds,
// so it runs in another thread: this thread must notice connections that the server closes meanwhile.
export async function misfits(answers) {
  const worker = new Worker(new URL(import.meta.url), { workerData: answers })
  const [found] = await once(worker, "message")
  return found
}

if (!isMainThread) parentPort.postMessage(compile(workerData))

function compile(answers) {
  const lines = answers.map(({ type, value }) => `fits<${type}>()(${JSON.stringify(value)})`)
  const text = HEAD + lines.join("\n")
  const options = {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2022,
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
  }
  const host = ts.createCompilerHost(options)
  const { getSourceFile, fileExists, readFile } = host
  host.getSourceFile = (name, ...rest) =>
    name === FILE ? ts.createSourceFile(name, text, options.target) : getSourceFile.call(host, name, ...rest)
  host.fileExists = (name) => name === FILE || fileExists.call(host, name)
  host.readFile = (name) => (name === FILE ? text : readFile.call(host, name))
  const program = ts.createProgram([FILE], options, host)
  const source = program.getSourceFile(FILE)
  const first = HEAD.split("\n").length - 1
  const found = new Map()
  for (const { messageText, start } of ts.getPreEmitDiagnostics(program, source)) {
    const answer = answers[source.getLineAndCharacterOfPosition(start ?? 0).line - first]
    const message = ts.flattenDiagnosticMessageText(messageText, "\n")
    // The first error usually causes the others.
    if (!found.has(answer)) found.set(answer, `${answer?.name} does not fit ${answer?.type}: ${message}`)
  }
  return [...found.values()]
}
