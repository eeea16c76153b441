import { resolve } from 'node:path'
import { parseMegabytes } from '@sandglass/contract/tables'
import { camelName, type SessionOptions } from '@sandglass/sdk'
import type { Flag, Values } from '../command.ts'
import { SESSION_FLAGS, type SessionFlag } from '../generated/session-flags.ts'
import { NONE, parseDuration } from './duration.ts'
import { texts, usage, writtenFlag } from './parse.ts'

/** Said in the words of a flag where the field's own would not do. */
const ABOUT: Readonly<Record<string, string>> = { persist: 'the same as --mode persistent' }

/** What completion offers where there may be more. */
const SUGGESTED: Readonly<Record<string, readonly string[]>> = { runtime: ['crun', 'runc'] }

/** What is on by default, told as what turning it off does. */
const TURNED_OFF: Readonly<Record<string, string>> = {
  'readonly-rootfs':
    'make the root filesystem writable, in a copy of its own; root inside then reads what only root may read in the host’s /usr',
  start: 'create the session stopped',
}

/** The spelling that help shows first; the one of the field stands below the others. */
const SHORT: Readonly<Record<string, string>> = {
  'cpu-cores': 'cpus',
  'memory-mb': 'memory',
  'disk-mb': 'disk',
  'ttl-seconds': 'ttl',
}

const UNITS: Partial<Record<SessionFlag['kind'], string>> = {
  megabytes: '; also with a unit, like 2g',
  seconds: '; also with a unit, like 90s or 2h',
}

/** The flags that describe a session, as the parser wants them. */
export const SESSION_OPTIONS: Record<string, Flag> = sessionOptions()

export const someSessionOptions = (...names: string[]): Record<string, Flag> =>
  Object.fromEntries(Object.entries(SESSION_OPTIONS).filter(([name]) => names.includes(name)))

function sessionOptions(): Record<string, Flag> {
  const all = Object.entries(SESSION_FLAGS)
  const first = all.map(([name, flag]): [string, Flag] => {
    const short = SHORT[name]
    const option = optionOf(name, flag)
    return short === undefined ? [name, option] : [short, { ...option, aliasOf: name }]
  })
  const long = all.flatMap(([name, flag]): [string, Flag][] => {
    const short = SHORT[name]
    return short === undefined ? [] : [[name, { ...optionOf(name, flag), about: `the same as --${short}` }]]
  })
  return Object.fromEntries([...first, ...long])
}

function optionOf(name: string, { kind, value, choices, isNullable, about }: SessionFlag): Flag {
  if (kind === 'boolean') {
    const off = TURNED_OFF[name]
    return { type: 'boolean', isOn: off !== undefined, about: off ?? ABOUT[name] ?? about }
  }
  const more = `${UNITS[kind] ?? ''}${isNullable ? '; none turns it off' : ''}`
  const multiple = kind === 'map' || kind === 'mount'
  const suggested = SUGGESTED[name]
  const isPath = kind === 'mount'
  return {
    type: 'string',
    multiple,
    value,
    choices,
    suggested,
    isPath,
    isImage: name === 'image',
    about: about + more,
  }
}

/** What to create, from the flags that were given. Ranges are the daemon's to check. */
export function specFromFlags(flags: Values): SessionOptions {
  const spec: Record<string, unknown> = {}
  for (const [name, { field, kind, isNullable }] of Object.entries(SESSION_FLAGS)) {
    const given = flags[name]
    if (given === undefined) continue
    const written = writtenFlag(name, flags, SESSION_OPTIONS)
    const isNone = isNullable && texts(given).at(-1) === NONE
    spec[camelName(field)] = typeof given === 'boolean' ? given : isNone ? null : fieldFrom(written, kind, texts(given))
  }
  return spec
}

function fieldFrom(flag: string, kind: SessionFlag['kind'], given: readonly string[]): unknown {
  if (kind === 'map') return mapFrom(flag, given)
  return kind === 'mount' ? given.map(text => mountFrom(flag, text)) : valueFrom(flag, kind, String(given.at(-1)))
}

/** SRC:DST, read-only unless :rw follows. SRC may be relative to where the command runs. */
function mountFrom(flag: string, text: string): { source: string; target: string; readonly: boolean } {
  const [source = '', target = '', mode = 'ro', ...more] = text.split(':')
  if (source === '' || target === '' || more.length > 0 || (mode !== 'ro' && mode !== 'rw'))
    throw usage(`--${flag} takes SRC:DST or SRC:DST:rw, and not ${text}`)
  if (!target.startsWith('/'))
    throw usage(`--${flag} ${text}: where the sandbox sees it must begin with /, and ${target} does not`)
  return { source: resolve(source), target, readonly: mode === 'ro' }
}

/** NAME=VALUE, any number of them. */
export function mapFrom(flag: string, entries: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    entries.map(entry => {
      const at = entry.indexOf('=')
      if (at < 1) throw usage(`--${flag} takes NAME=VALUE`)
      return [entry.slice(0, at), entry.slice(at + 1)]
    }),
  )
}

function valueFrom(flag: string, kind: SessionFlag['kind'], given: string): string | number {
  if (kind === 'seconds') return parseDuration(given, 's', `--${flag}`) / 1000
  if (kind === 'megabytes') {
    const size = parseMegabytes(given)
    if (size === undefined) throw usage(`--${flag} ${given} is not a size; write a number of MiB, or one with a unit like 2g`)
    return size
  }
  if (kind !== 'number') return given
  if (given.trim() === '' || Number.isNaN(Number(given))) throw usage(`--${flag} ${given} is not a number`)
  return Number(given)
}
