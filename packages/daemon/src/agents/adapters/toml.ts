// Writes TOML: tables as inline values of the top level, which is all that a configuration file needs.

export type TomlValue = string | number | boolean | readonly TomlValue[] | Toml
export type Toml = { readonly [key: string]: TomlValue }

export function toml(root: Toml): string {
  return Object.entries(root)
    .map(([key, value]) => `${quote(key)} = ${write(value)}\n`)
    .join('')
}

function write(value: TomlValue): string {
  if (typeof value === 'string') return quote(value)
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (isList(value)) return `[${value.map(write).join(', ')}]`
  const fields = Object.entries(value).map(([key, inner]) => `${quote(key)} = ${write(inner)}`)
  return `{ ${fields.join(', ')} }`
}

const isList = (value: readonly TomlValue[] | Toml): value is readonly TomlValue[] => Array.isArray(value)

/** A basic string of TOML is one of JSON, but for DEL and lone surrogates. */
const quote = (text: string): string => JSON.stringify(text.toWellFormed()).replaceAll('\x7f', '\\u007f')
