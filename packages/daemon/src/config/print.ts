// The output of `serve --print-config`: every key that is in use or set, with its value and origin.
import { SECRET_FIELDS } from '@sandglass/contract'
import { CONFIG_KEYS } from './keys.ts'
import type { Loaded } from './load.ts'

export type PrintedKey = { value: unknown; origin: string }

/** SECURITY: a secret's value is replaced here, so that no caller can print it by mistake. */
export function printedConfig(loaded: Loaded): Record<string, PrintedKey> {
  return Object.fromEntries(
    CONFIG_KEYS.flatMap(({ path, isSecret, isLater }) => {
      const origin = loaded.origins.get(path) ?? 'default'
      if (isLater && origin === 'default') return []
      const value = shown(loaded, path)
      return [[path, { value: isSecret && value !== null ? '***' : masked(value), origin }]]
    }),
  )
}

/** Replaces secret fields at any depth. */
function masked(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (name, inner) => (SECRET_FIELDS.includes(name) ? '***' : inner)))
}

function shown(loaded: Loaded, path: string): unknown {
  if (path === 'data_dir') return loaded.dataDir
  if (path === 'store') return loaded.storePath
  let at: unknown = loaded.config
  for (const name of path.split('.')) at = (at as Record<string, unknown> | undefined)?.[name]
  return at ?? null
}
