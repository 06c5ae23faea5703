// Tools that plugins provide: their definitions for the model, and their calls.
import { describe } from "./wire.mjs"

/** The definition of a tool for the model. */
export async function definition(id, tool) {
  return { id, description: tool.description ?? "", parameters: await schema(tool.args ?? {}) }
}

/** The arguments as JSON Schema. Falls back to their names if the plugin uses a version of zod that does not fit. */
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

/** Calls a tool with the model's arguments. */
export async function execute(tool, { args, context }, wire, abort) {
  const title = (input) => wire.notify("tool.metadata", { call: context.callID, ...plain(input) })
  const ask = (input) => wire.request("tool.ask", { call: context.callID, ...plain(input) })
  const result = await tool.execute(checked(tool.args ?? {}, args), { ...context, abort, metadata: title, ask })
  if (typeof result === "string") return { output: result }
  if (result === null || typeof result !== "object") return { output: result === undefined ? "" : String(result) }
  return plain(result)
}

/** The parsed arguments with their defaults. Throws if one is not valid. */
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
