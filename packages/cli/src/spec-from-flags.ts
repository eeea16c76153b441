import { camelName, type SessionOptions } from '@sandglass/sdk'
import type { Flag, Values } from './command.ts'
import { parseDuration } from './duration.ts'
import { SESSION_FLAGS } from './generated/session-flags.ts'
import { texts, usage } from './parse.ts'

/** The flags of `new`, as the parser wants them. */
export const SESSION_OPTIONS: Record<string, Flag> = Object.fromEntries(
  Object.entries(SESSION_FLAGS).map(([name, { kind, value, about }]): [string, Flag] =>
    kind === 'boolean' ? [name, { type: 'boolean', about }] : [name, { type: 'string', multiple: kind === 'map', value, about }],
  ),
)

/** What to create, from the flags that were given. Ranges are the daemon's to check. */
export function specFromFlags(flags: Values): SessionOptions {
  const spec: Record<string, unknown> = {}
  for (const [name, { field, kind }] of Object.entries(SESSION_FLAGS)) {
    const given = flags[name]
    if (given === undefined) continue
    spec[camelName(field)] =
      typeof given === 'boolean' ? given : kind === 'map' ? mapFrom(name, texts(given)) : valueFrom(name, kind, String(given))
  }
  return spec
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

function valueFrom(flag: string, kind: string, given: string): string | number {
  if (kind === 'seconds') return parseDuration(given, 's', `--${flag}`) / 1000
  if (kind !== 'number') return given
  if (given.trim() === '' || Number.isNaN(Number(given))) throw usage(`--${flag} ${given} is not a number`)
  return Number(given)
}
