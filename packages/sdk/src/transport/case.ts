// Field names are snake_case on the wire and camelCase in the SDK. Keys of the user's own data are not converted.
import { OPAQUE_FIELDS } from '@sandglass/contract/tables'

export const toCamel = (value: unknown): unknown => convert(value, camelName)
export const toSnake = (value: unknown): unknown => convert(value, snakeName)

export const camelName = (name: string) => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
export const snakeName = (name: string) => name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)

const OPAQUE: ReadonlySet<string> = new Set(OPAQUE_FIELDS.flatMap(name => [name, camelName(name)]))

function convert(value: unknown, rename: (name: string) => string): unknown {
  if (Array.isArray(value)) return value.map(item => convert(item, rename))
  if (value === null || typeof value !== 'object') return value
  const result: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(value)) {
    // SECURITY: a reply is not trusted to leave prototypes alone; defineProperty makes __proto__ an ordinary field.
    Object.defineProperty(result, rename(name), {
      value: OPAQUE.has(name) ? field : convert(field, rename),
      enumerable: true,
      writable: true,
      configurable: true,
    })
  }
  return result
}
