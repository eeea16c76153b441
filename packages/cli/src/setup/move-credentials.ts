// Moves keys from the configuration file into the secret store.
import { CREDENTIALS, type CredentialKey } from '@sandglass/contract/tables'
import type { Document } from 'yaml'
import type { Context } from '../command.ts'
import { noteOutdated } from '../daemon/running-daemon.ts'
import { readConfigFile } from '../daemon/settings.ts'
import { usage } from '../parser/parse.ts'
import { type ConfigDocument, writePrivate } from './config-document.ts'
import { withoutKeys } from './without-keys.ts'

const KEYS = Object.keys(CREDENTIALS) as CredentialKey[]

/**
 * Moves the keys in the file into the daemon's secret store. They are removed from the file only when the store has all of them, so that a
 * failure loses none.
 */
export async function moveCredentials(context: Context, { path, document }: ConfigDocument): Promise<void> {
  const found = credentialsIn(document)
  if (found.size === 0) return
  if (context.env.SANDGLASS_URL)
    throw usage('init stores keys in the local daemon, but SANDGLASS_URL selects a remote one', 'unset SANDGLASS_URL')
  const { secrets } = await context.connect()
  for (const [key, value] of found) await secrets.set(CREDENTIALS[key], value)
  writePrivate(path, withoutKeys(readConfigFile(path) ?? '', topKeys(found)))
  for (const key of found.keys()) context.say(`moved ${key} into the secret store, as ${CREDENTIALS[key]}\n`)
  await noteOutdated(context)
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
