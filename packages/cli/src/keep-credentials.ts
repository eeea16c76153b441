import { existsSync } from 'node:fs'
import { CREDENTIALS, type CredentialKey } from '@sandglass/contract/tables'
import type { Document } from 'yaml'
import type { Context } from './command.ts'
import { type ConfigDocument, writePrivate } from './config-document.ts'
import { noteOutdated } from './outdated-note.ts'
import { usage } from './parse.ts'
import { findDaemon } from './running-daemon.ts'
import { readPrivate } from './settings.ts'
import { withoutKeys } from './without-keys.ts'

const KEYS = Object.keys(CREDENTIALS) as CredentialKey[]

export const isCredential = (key: string): key is CredentialKey => Object.hasOwn(CREDENTIALS, key)

/**
 * Puts keys into the daemon's secret store: those given, and those that lie in the file, which loses them. They leave the file only after
 * the store has them all, so that whatever fails in between loses none.
 */
export async function keepCredentials(
  context: Context,
  { path, document }: ConfigDocument,
  given: ReadonlyMap<CredentialKey, string>,
): Promise<void> {
  const found = credentialsIn(document)
  const all = new Map([...found, ...given])
  if (all.size === 0) return
  if (context.env.SANDGLASS_URL)
    throw usage('SANDGLASS_URL names a daemon elsewhere, and init keeps the keys of the one here', 'unset SANDGLASS_URL')
  const { secrets } = await context.connect()
  for (const [key, value] of all) await secrets.put(CREDENTIALS[key], value)
  if (found.size > 0) writePrivate(path, withoutKeys(readPrivate(path) ?? '', topKeys(found)))
  for (const key of all.keys())
    context.say(found.has(key) ? `moved ${key} into the secret store, as ${CREDENTIALS[key]}\n` : `kept ${CREDENTIALS[key]}\n`)
  if (found.size > 0) await noteOutdated(context)
}

/** Names in the secret store; undefined when no daemon runs. None is started to ask: the file may not be good enough yet to start with. */
export async function keptNames(context: Context, { path }: ConfigDocument): Promise<string[] | undefined> {
  const { configPath, env } = context
  if (env.SANDGLASS_URL || ((configPath ?? env.SANDGLASS_CONFIG) !== undefined && !existsSync(path))) return undefined
  if (!findDaemon((await context.settings()).dataDir)) return undefined
  return (await (await context.connect()).secrets.list()).map(secret => secret.name)
}

function credentialsIn(document: Document): Map<CredentialKey, string> {
  const values = document.toJS() as Record<string, unknown>
  const at = (key: string) => key.split('.').reduce((value: unknown, name) => (value as Record<string, unknown>)?.[name], values)
  return new Map(
    KEYS.flatMap(key => {
      const value = at(key)
      return typeof value === 'string' && value !== '' ? [[key, value] as const] : []
    }),
  )
}

const topKeys = (found: ReadonlyMap<string, string>) => [...new Set([...found.keys()].map(key => key.split('.')[0] ?? key))]
