// The keys of the configuration as a flat list, derived from the contract's schema: flag, variable and kind of value.
import { CONFIG_ALIASES, Config, LATER_KEYS, SECRET_KEYS } from '@sandglass/contract'
import { z } from 'zod'

export type ConfigKey = {
  /** defaults.memory_mb */
  path: string
  /** defaults-memory-mb */
  flag: string
  /** SANDGLASS_DEFAULTS_MEMORY_MB */
  variable: string
  kind: 'text' | 'number' | 'boolean' | 'list'
  about: string
  isSecret: boolean
  /** Nothing uses it yet: help and reference leave it out. */
  isLater: boolean
}

export const CONFIG_KEYS: readonly ConfigKey[] = leaves(Config, '')

export const findKey = (path: string): ConfigKey | undefined =>
  CONFIG_KEYS.find(key => key.path === (CONFIG_ALIASES[path] ?? path))

function leaves(schema: z.core.$ZodType, path: string): ConfigKey[] {
  const inner = unwrapped(schema)
  if (inner instanceof z.ZodObject) {
    return Object.entries(inner.shape).flatMap(([name, field]) =>
      leaves(field as z.core.$ZodType, path ? `${path}.${name}` : name),
    )
  }
  if (inner instanceof z.ZodRecord && inner.keyType instanceof z.ZodEnum) {
    return inner.keyType.options.map(name => leaf(inner.valueType, `${path}.${String(name)}`, aboutOf(schema)))
  }
  return [leaf(inner, path, aboutOf(schema))]
}

function leaf(inner: z.core.$ZodType, path: string, about: string): ConfigKey {
  return {
    path,
    flag: path.replaceAll(/[._]/g, '-'),
    variable: `SANDGLASS_${path.replaceAll('.', '_').toUpperCase()}`,
    kind:
      inner instanceof z.ZodNumber
        ? 'number'
        : inner instanceof z.ZodBoolean
          ? 'boolean'
          : inner instanceof z.ZodArray
            ? 'list'
            : 'text',
    about,
    isSecret: SECRET_KEYS.some(isAbove(path)),
    isLater: LATER_KEYS.some(isAbove(path)),
  }
}

function isAbove(path: string): (key: string) => boolean {
  return key => path === key || path.startsWith(`${key}.`)
}

function unwrapped(schema: z.core.$ZodType): z.core.$ZodType {
  const inner = wrappedBy(schema)
  return inner ? unwrapped(inner) : schema
}

/** The description is on the field or on a schema inside it. */
function aboutOf(schema: z.core.$ZodType): string {
  const about = schema instanceof z.ZodType ? schema.description : undefined
  const inner = wrappedBy(schema)
  return about ?? (inner ? aboutOf(inner) : '')
}

function wrappedBy(schema: z.core.$ZodType): z.core.$ZodType | null {
  const isWrapper = schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault || schema instanceof z.ZodOptional
  return isWrapper ? schema.def.innerType : null
}
