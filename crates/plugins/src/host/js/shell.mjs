// Replaces Bun's `$` under Node: a tagged template that runs a command line in the system's shell.
// Inserted values are quoted, except `{ raw }`; a list becomes several words.
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"

const SHELL = existsSync("/bin/bash") ? "/bin/bash" : "/bin/sh"
/** Maximum output of a command in bytes. */
const MAX_OUTPUT = 64 * 1024 * 1024

/** The result of a command. */
class ShellOutput {
  constructor(stdout, stderr, exitCode) {
    Object.assign(this, { stdout, stderr, exitCode })
  }
  text(encoding = "utf8") {
    return this.stdout.toString(encoding)
  }
  json() {
    return JSON.parse(this.text())
  }
  bytes() {
    return new Uint8Array(this.stdout)
  }
  arrayBuffer() {
    return this.bytes().buffer
  }
  blob() {
    return new Blob([this.stdout])
  }
}

export class ShellError extends Error {
  constructor(output) {
    super(`Failed with exit code ${output.exitCode}`)
    this.name = "ShellError"
    Object.assign(this, { stdout: output.stdout, stderr: output.stderr, exitCode: output.exitCode })
    this.text = (encoding) => output.text(encoding)
    this.json = () => output.json()
    this.arrayBuffer = () => output.arrayBuffer()
    this.bytes = () => output.bytes()
    this.blob = () => output.blob()
  }
}

/** A command that starts when its result is first requested. */
class ShellPromise {
  #line
  #options
  #quiet = false
  #running

  constructor(line, options) {
    this.#line = line
    this.#options = { ...options }
  }

  cwd(directory) {
    this.#options.cwd = directory ?? this.#options.cwd
    return this
  }
  env(environment) {
    this.#options.env = environment ?? process.env
    return this
  }
  quiet(quiet = true) {
    this.#quiet = quiet
    return this
  }
  nothrow() {
    return this.throws(false)
  }
  throws(throws) {
    this.#options.throws = throws
    return this
  }
  async text(encoding) {
    return (await this.quiet().run()).text(encoding)
  }
  async json() {
    return (await this.quiet().run()).json()
  }
  async arrayBuffer() {
    return (await this.quiet().run()).arrayBuffer()
  }
  async bytes() {
    return (await this.quiet().run()).bytes()
  }
  async blob() {
    return (await this.quiet().run()).blob()
  }
  async *lines() {
    const lines = (await this.text()).split("\n")
    if (lines.at(-1) === "") lines.pop()
    yield* lines
  }
  run() {
    return (this.#running ??= this.#start())
  }
  then(done, failed) {
    return this.run().then(done, failed)
  }
  catch(failed) {
    return this.run().catch(failed)
  }
  finally(done) {
    return this.run().finally(done)
  }
  get [Symbol.toStringTag]() {
    return "ShellPromise"
  }

  #start() {
    const { cwd, env, throws } = this.#options
    return new Promise((resolve, reject) => {
      const child = spawn(SHELL, ["-c", this.#line], { cwd, env, stdio: ["ignore", "pipe", "pipe"] })
      const stdout = this.#collect(child, child.stdout, process.stdout)
      const stderr = this.#collect(child, child.stderr, process.stderr)
      child.once("error", reject)
      child.once("close", (code, signal) => {
        const output = new ShellOutput(Buffer.concat(stdout), Buffer.concat(stderr), code ?? (signal ? 128 : 1))
        if (throws && output.exitCode !== 0) reject(new ShellError(output))
        else resolve(output)
      })
    })
  }

  #collect(child, stream, echo) {
    const chunks = []
    let total = 0
    stream.on("data", (chunk) => {
      total += chunk.length
      if (total > MAX_OUTPUT) return child.kill("SIGKILL")
      chunks.push(chunk)
      if (!this.#quiet) echo.write(chunk)
    })
    return chunks
  }
}

/** Quotes a word for the shell. */
function quote(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

function word(value) {
  if (Array.isArray(value)) return value.map(word).join(" ")
  if (value !== null && typeof value === "object" && typeof value.raw === "string") return value.raw
  if (value instanceof ReadableStream || value instanceof Uint8Array) {
    throw new TypeError("redirecting from or to an object needs Bun; Node's `$` accepts text only")
  }
  return quote(String(value))
}

/** A `$` with these defaults. */
export function shell(defaults) {
  const options = { env: process.env, throws: true, ...defaults }
  const $ = (strings, ...values) => {
    const line = strings.reduce((line, text, at) => line + text + (at < values.length ? word(values[at]) : ""), "")
    return new ShellPromise(line, options)
  }
  $.escape = quote
  $.braces = (pattern) => [pattern]
  $.env = (environment) => ((options.env = environment ?? process.env), $)
  $.cwd = (directory) => ((options.cwd = directory ?? defaults.cwd), $)
  $.nothrow = () => ((options.throws = false), $)
  $.throws = (throws) => ((options.throws = throws), $)
  $.ShellError = ShellError
  return $
}
