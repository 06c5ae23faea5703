// The tools that plugins bring along: what a model is told about them, and calling them.
import { describe } from "./wire.mjs"

/** What a model is told about a tool. */
export async function definition(id, tool) {
  return { id, description: tool.description ?? "", parameters: await schema(tool.args ?? {}) }
}

/** The arguments as JSON Schema. A plugin may have brought another copy of zod, or one that cannot be asked. */
async function schema(args) {
  const names = Object.keys(args)
  const bare = { type: "object", properties: Object.fromEntries(names.map((name) => [name, {}])) }
  const { z } = names.length > 0 ? await import("zod").catch(() => ({})) : {}
  const described = z ? converted(z, args) : bare
  for (const name of names) {
    const description = args[name]?.description
    if (typeof description === "string" && described.properties?.[name]) described.properties[name].description ??= description
  }
  return described

  function converted(z, args) {
    try {
      const { $schema, ...schema } = z.toJSONSchema(z.object(args), { io: "input", unrepresentable: "any" })
      return schema
    } catch {
      return bare
    }
  }
}

/** Calls a tool with what a model has said. */
export async function execute(tool, { args, context }, wire, abort) {
  const title = (input) => wire.notify("tool.metadata", { call: context.callID, ...plain(input) })
  const ask = (input) => wire.request("tool.ask", { call: context.callID, ...plain(input) })
  const result = await tool.execute(checked(tool.args ?? {}, args), { ...context, abort, metadata: title, ask })
  if (typeof result === "string") return { output: result }
  if (result === null || typeof result !== "object") return { output: result === undefined ? "" : String(result) }
  return plain(result)
}

/** The arguments as the tool wants them: with defaults, and none that do not fit. */
function checked(args, given) {
  const fitting = {}
  const wrong = []
  for (const [name, type] of Object.entries(args)) {
    const parsed = typeof type?.safeParse === "function" ? type.safeParse(given?.[name]) : { success: true, data: given?.[name] }
    if (!parsed.success) wrong.push(`${name}: ${parsed.error?.issues?.map((issue) => issue.message).join("; ") ?? describe(parsed.error)}`)
    else if (parsed.data !== undefined) fitting[name] = parsed.data
  }
  if (wrong.length > 0) throw new Error(`the arguments do not fit: ${wrong.join(", ")}`)
  return fitting
}

function plain(value) {
  return JSON.parse(JSON.stringify(value ?? {}))
}
