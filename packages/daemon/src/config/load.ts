// Reads the configuration once: a flag, else a variable, else the file, else the default. The origin of every value is kept.
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { CONFIG_ALIASES, Config, makeConfigFile, nearest, parseMegabytes, SandglassError } from '@sandglass/contract'
import type { z } from 'zod'
import { readConfigFile } from './file.ts'
import { CONFIG_KEYS, type ConfigKey, findKey } from './keys.ts'

export type Origin = 'flag' | 'environment' | 'file' | 'default'
export type Loaded = {
  config: Readonly<Config>
  dataDir: string
  storePath: string
  filePath: string
  origins: ReadonlyMap<string, Origin>
}
export type Sources = {
  /** The values of each flag, by its name without the dashes. */
  flags: Readonly<Record<string, readonly string[]>>
  env: Readonly<Record<string, string | undefined>>
  home?: string
  userId: number
}

/** Variables that belong to the command line or name the file, and are no keys of the configuration. */
const OTHER_VARIABLES = ['SANDGLASS_CONFIG', 'SANDGLASS_URL', 'SANDGLASS_SOCKET', 'SANDGLASS_DEBUG']

export function loadConfig({ flags, env, home = homedir(), userId }: Sources): Loaded {
  const named = flags.config?.at(-1) ?? env.SANDGLASS_CONFIG
  const filePath = resolve(named ?? join(home, '.sandglass', 'config.yaml'))
  const file = readConfigFile(filePath, userId)
  if (file === null && named !== undefined) throw invalid(filePath, 'does not exist', makeConfigFile(filePath))

  const values = new Map<string, { value: unknown; origin: Origin; source: string }>()
  for (const { path, value, written } of flattened(file ?? {}, '', filePath)) {
    const earlier = values.get(path)
    if (earlier && !isDeepStrictEqual(earlier.value, value))
      throw invalid(filePath, `${written} and another name of ${path} have different values: keep one`)
    values.set(path, { value, origin: 'file', source: filePath })
  }
  for (const [variable, text] of Object.entries(env)) {
    if (text === undefined || !variable.startsWith('SANDGLASS_') || OTHER_VARIABLES.includes(variable)) continue
    const key =
      CONFIG_KEYS.find(k => k.variable === variable) ??
      refuse(
        'the environment',
        variable,
        CONFIG_KEYS.map(k => k.variable),
      )
    values.set(key.path, { value: fromText(key, [text], variable), origin: 'environment', source: variable })
  }
  for (const [flag, texts] of Object.entries(flags)) {
    if (flag === 'config') continue
    const key =
      CONFIG_KEYS.find(k => k.flag === flag) ??
      refuse(
        'flags',
        `--${flag}`,
        CONFIG_KEYS.map(k => `--${k.flag}`),
      )
    values.set(key.path, { value: fromText(key, texts, `--${flag}`), origin: 'flag', source: `--${flag}` })
  }

  const parsed = Config.safeParse(nested(values))
  if (!parsed.success) throw invalidIssue(parsed.error.issues[0], values, filePath)
  const config = deepFreeze(parsed.data)
  const dataDir = resolve(expandHome(config.data_dir ?? join(home, '.sandglass', 'data'), home))
  const storePath = config.store === undefined ? join(dataDir, 'sandglass.db') : resolve(expandHome(config.store, home))
  const origins = new Map(CONFIG_KEYS.map(key => [key.path, values.get(key.path)?.origin ?? 'default'] as const))
  return { config, dataDir, storePath, filePath, origins }
}

/** Paths that have keys below them. */
const SECTIONS = new Set(
  CONFIG_KEYS.flatMap(({ path }) =>
    path
      .split('.')
      .slice(0, -1)
      .map((_, i, names) => names.slice(0, i + 1).join('.')),
  ),
)

/** A value of the file. `written` is the key as the file names it, which may be an alias of `path`. */
type FileValue = { path: string; value: unknown; written: string }

/** Every value of the file by the path of its key. An unknown key is an error that names the nearest known one. */
function flattened(object: Record<string, unknown>, prefix: string, source: string): FileValue[] {
  return Object.entries(object).flatMap(([name, value]): FileValue[] => {
    const path = prefix ? `${prefix}.${name}` : name
    const key = findKey(path)
    if (key) return [{ path: key.path, value: typeof value === 'string' ? fromFile(key, value, source) : value, written: path }]
    if (!CONFIG_KEYS.some(k => k.path.startsWith(`${path}.`))) {
      refuse(source, path, [...SECTIONS, ...CONFIG_KEYS.map(k => k.path), ...Object.keys(CONFIG_ALIASES)])
    }
    if (value === null) return []
    if (typeof value !== 'object' || Array.isArray(value)) throw invalid(source, `${path}: must be a map of keys`)
    return flattened(value as Record<string, unknown>, path, source)
  })
}

/** YAML values have types, so a string is parsed only for lists and sizes. */
function fromFile(key: ConfigKey, text: string, source: string): unknown {
  return key.kind === 'list' || isSize(key) ? fromText(key, [text], source) : text
}

const isSize = ({ path }: ConfigKey) => path.endsWith('_mb')

function fromText(key: ConfigKey, texts: readonly string[], source: string): unknown {
  const last = texts.at(-1) ?? ''
  if (key.kind === 'list') return texts.flatMap(text => text.split(',')).filter(item => item !== '')
  if (isSize(key)) {
    const size = parseMegabytes(last)
    if (size === undefined) throw invalid(source, `${key.path}: must be a size in MiB, like 512 or 2GB`)
    return size
  }
  if (key.kind === 'number') {
    if (last.trim() === '' || Number.isNaN(Number(last))) throw invalid(source, `${key.path}: must be a number`)
    return Number(last)
  }
  if (key.kind === 'boolean') {
    const value = { true: true, '1': true, yes: true, false: false, '0': false, no: false }[last.toLowerCase()]
    if (value === undefined) throw invalid(source, `${key.path}: must be true or false`)
    return value
  }
  return last
}

function nested(values: ReadonlyMap<string, { value: unknown }>): Record<string, unknown> {
  const root: Record<string, unknown> = {}
  for (const [path, { value }] of values) {
    const names = path.split('.')
    const last = names.pop() ?? ''
    let at = root
    for (const name of names) {
      at[name] ??= {}
      at = at[name] as Record<string, unknown>
    }
    at[last] = value
  }
  return root
}

function invalidIssue(
  issue: z.core.$ZodIssue | undefined,
  values: ReadonlyMap<string, { source: string }>,
  filePath: string,
): SandglassError {
  const path = issue?.path.filter(part => typeof part === 'string').join('.') ?? ''
  // SECURITY: zod's texts name types and ranges, never the value, which may be a key.
  return invalid(values.get(path)?.source ?? filePath, `${path}: ${issue?.message ?? 'invalid'}`)
}

function refuse(source: string, name: string, known: readonly string[]): never {
  const meant = nearest(name, known, Math.max(2, Math.ceil(name.length / 2)))
  throw invalid(source, `unknown key ${name}${meant ? `; did you mean ${meant}?` : ''}`)
}

const invalid = (source: string, issue: string, next?: string) => new SandglassError('CONFIG_INVALID', { source, issue, next })

const expandHome = (path: string, home: string) => (path === '~' || path.startsWith('~/') ? join(home, path.slice(1)) : path)

function deepFreeze<T>(value: T): Readonly<T> {
  if (typeof value === 'object' && value !== null) {
    for (const inner of Object.values(value)) deepFreeze(inner)
    Object.freeze(value)
  }
  return value
}
