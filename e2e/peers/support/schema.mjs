// Validates a value against a JSON Schema, as far as OpenCode's document uses them. Fields that a schema does not contain are
// valid: Baton adds some, and clients ignore them.

const PLACE = "#/components/schemas/"

const KINDS = {
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  array: Array.isArray,
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  integer: Number.isInteger,
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
}

// Returns the reason why a value does not match, or undefined if it does.
export function misfit(document, schema, value, at = "$") {
  const check = (inner, part, where) => misfit(document, inner, part, where)
  if (schema === true || schema === undefined) return undefined
  if (schema === false) return `${at}: nothing fits here`
  if (schema.$ref) return check(document.components.schemas[schema.$ref.slice(PLACE.length)], value, at)
  if ("const" in schema && schema.const !== value) return `${at}: ${JSON.stringify(value)} is not ${schema.const}`
  if (schema.enum && !schema.enum.includes(value)) return `${at}: ${JSON.stringify(value)} is none of ${schema.enum}`
  const kinds = [schema.type ?? []].flat()
  if (kinds.length && !kinds.some((kind) => KINDS[kind](value))) return `${at}: ${JSON.stringify(value)} is no ${kinds}`
  if (schema.pattern && typeof value === "string" && !new RegExp(schema.pattern).test(value)) {
    return `${at}: ${value} does not match ${schema.pattern}`
  }
  const all = (schema.allOf ?? []).map((inner) => check(inner, value, at)).find(Boolean)
  return all ?? anyOf(schema.anyOf ?? schema.oneOf, value, at, check) ?? inside(schema, value, at, check)
}

function anyOf(options, value, at, check) {
  if (!options) return undefined
  const misfits = options.map((option) => check(option, value, at))
  if (misfits.some((found) => found === undefined)) return undefined
  // The alternative that matches the furthest has the best reason.
  return misfits.reduce((one, other) => (other.indexOf(":") > one.indexOf(":") ? other : one))
}

function inside(schema, value, at, check) {
  if (KINDS.array(value)) {
    return value.map((item, index) => check(schema.items, item, `${at}[${index}]`)).find(Boolean)
  }
  if (!KINDS.object(value)) return undefined
  const missing = (schema.required ?? []).find((name) => !(name in value))
  if (missing) return `${at}: ${missing} is missing`
  const patterns = Object.entries(schema.patternProperties ?? {})
  const more = typeof schema.additionalProperties === "object" ? schema.additionalProperties : true
  for (const [name, part] of Object.entries(value)) {
    const own = schema.properties?.[name] ?? patterns.find(([pattern]) => new RegExp(pattern).test(name))?.[1] ?? more
    const found = check(own, part, `${at}.${name}`)
    if (found) return found
  }
  return undefined
}
