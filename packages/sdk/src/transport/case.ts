// Field names are snake_case on the wire and camelCase in the SDK. Keys of the user's own data are not converted.
import { NAMED_FIELDS, OPAQUE_FIELDS } from '@sandglass/contract/tables'

export const toCamel = (value: unknown): unknown => convert(value, camelName)
export const toSnake = (value: unknown): unknown => convert(value, snakeName)

export const camelName = cached(name => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()))
export const snakeName = cached(name => name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`))

/** The contract has a few hundred names; the bound is for unknown ones. */
function cached(rename: (name: string) => string): (name: string) => string {
  const known = new Map<string, string>()
  return name => {
    const found = known.get(name)
    if (found !== undefined) return found
    const renamed = rename(name)
    if (known.size < MAX_CACHED) known.set(name, renamed)
    return renamed
  }
}

const MAX_CACHED = 1000
const OPAQUE: ReadonlySet<string> = new Set(OPAQUE_FIELDS.flatMap(name => [name, camelName(name)]))
const NAMED: ReadonlySet<string> = new Set(NAMED_FIELDS.flatMap(name => [name, camelName(name)]))

function convert(value: unknown, rename: (name: string) => string, keepsNames = false): unknown {
  if (Array.isArray(value)) return value.map(item => convert(item, rename))
  if (value === null || typeof value !== 'object') return value
  const result: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(value)) {
    const renamed = keepsNames ? name : rename(name)
    const converted = OPAQUE.has(name) && !keepsNames ? field : convert(field, rename, NAMED.has(name) && !keepsNames)
    // SECURITY: an assignment to __proto__ would set the prototype of the result; a reply is not trusted to have no such field.
    if (renamed === '__proto__')
      Object.defineProperty(result, renamed, { value: converted, enumerable: true, writable: true, configurable: true })
    else result[renamed] = converted
  }
  return result
}
