// The secrets of a session: their surrogates, the variables that have them, and the values that the egress process inserts.
import { LIMITS, SandglassError, type SecretSettings } from '@sandglass/contract'
import type { AwsKeys, SessionSecret } from '@sandglass/egress/session'
import { makeAwsSurrogates, makeSurrogate } from '@sandglass/egress/surrogate'
import { findSecrets } from '../store/secrets.ts'
import type { SecretRow } from '../store/tables.ts'
import { AWS_VARIABLES, awsKeysOf, storedSettings, variablesOf } from './settings.ts'
import { openRow, type Vault } from './stored.ts'

/** As a session stores it. The surrogate stays the same over restarts and rotations. */
export type GivenSecret = { readonly name: string; readonly surrogate: string | AwsKeys }

type Found = { readonly row: SecretRow; readonly settings: SecretSettings }

/**
 * Gives secrets to a session. `before` are those that it has: their surrogates stay. Throws SECRET_NOT_FOUND, SECRET_UNSCOPED, or
 * INVALID_REQUEST for a value that is too short and for two secrets in one variable.
 */
export async function giveSecrets(
  vault: Vault,
  names: readonly string[],
  before: readonly GivenSecret[],
): Promise<GivenSecret[]> {
  const unique = [...new Set(names)]
  const found = await find(vault, unique)
  const given = unique.map(name => {
    const secret = found.get(name)
    const known = before.find(other => other.name === name)
    // One that was removed since must not keep the session from starting: its surrogate is worth nothing, and a warning says so.
    if (secret === undefined && known !== undefined) return known
    if (secret === undefined) throw new SandglassError('SECRET_NOT_FOUND', { name })
    if (secret.settings.scopes.length === 0) throw new SandglassError('SECRET_UNSCOPED', { name })
    return known && fits(known, secret.settings) ? known : { name, surrogate: newSurrogate(vault, name, secret) }
  })
  refuseSharedVariable(given, found)
  const bytes = Object.entries(toVariables(given, found)).reduce(
    (sum, [name, text]) => sum + name.length + Buffer.byteLength(text),
    0,
  )
  if (bytes > LIMITS.secret_env_bytes.max)
    throw new SandglassError('INVALID_REQUEST', {
      issue: `secrets: their surrogates take more than ${LIMITS.secret_env_bytes.max} bytes of environment`,
    })
  return given
}

/** The variables with surrogates. A secret of kind aws takes precedence over a masked one of the same variable. */
export const secretVariables = async (vault: Vault, given: readonly GivenSecret[]): Promise<Record<string, string>> =>
  toVariables(given, await find(vault, names(given)))

/** SECURITY: for the egress process alone. A secret that was removed meanwhile is left out: its surrogate then is worth nothing. */
export async function secretsForEgress(vault: Vault, given: readonly GivenSecret[]): Promise<SessionSecret[]> {
  const found = await find(vault, names(given))
  return given.flatMap(({ name, surrogate }): SessionSecret[] => {
    const secret = found.get(name)
    if (secret === undefined || secret.settings.scopes.length === 0) return []
    const { kind, ...settings } = secret.settings
    const value = openRow(vault, secret.row)
    if (kind === 'masked') return typeof surrogate === 'string' ? [{ ...settings, kind, name, value, surrogate }] : []
    return typeof surrogate === 'string' ? [] : [{ ...settings, kind, name, value: awsKeysOf(name, value), surrogate }]
  })
}

/** The settings of a session's secrets, by name; those that were removed meanwhile are left out. */
export async function settingsByName(vault: Vault, given: readonly GivenSecret[]): Promise<Map<string, SecretSettings>> {
  const found = await find(vault, names(given))
  return new Map([...found].map(([name, { settings }]) => [name, settings]))
}

const names = (given: readonly GivenSecret[]) => given.map(({ name }) => name)

async function find({ store }: Vault, wanted: readonly string[]): Promise<Map<string, Found>> {
  const rows = await findSecrets(store, wanted)
  return new Map(rows.map(row => [row.name, { row, settings: storedSettings(row.settings) }]))
}

/** A secret that became one of another kind needs another surrogate. */
const fits = ({ surrogate }: GivenSecret, { kind }: SecretSettings) => (typeof surrogate === 'string') === (kind === 'masked')

function newSurrogate(vault: Vault, name: string, { row, settings }: Found): string | AwsKeys {
  const value = openRow(vault, row)
  try {
    return settings.kind === 'aws' ? makeAwsSurrogates(awsKeysOf(name, value)) : makeSurrogate(value)
  } catch (error) {
    if (!(error instanceof SandglassError && error.is('INVALID_REQUEST'))) throw error
    throw new SandglassError(
      'INVALID_REQUEST',
      { ...error.detail, issue: `secrets: ${name}: ${error.detail.issue}` },
      { cause: error },
    )
  }
}

function refuseSharedVariable(given: readonly GivenSecret[], found: ReadonlyMap<string, Found>): void {
  const owners = new Map<string, string>()
  for (const { name } of given) {
    const settings = found.get(name)?.settings
    if (settings === undefined) continue
    for (const variable of variablesOf(name, settings)) {
      const key = `${settings.kind} ${variable}`
      const other = owners.get(key)
      if (other !== undefined)
        throw new SandglassError('INVALID_REQUEST', {
          issue: `secrets: ${other} and ${name} are both given as the variable ${variable}`,
          next: 'store one of them with another `env`',
        })
      owners.set(key, name)
    }
  }
}

function toVariables(given: readonly GivenSecret[], found: ReadonlyMap<string, Found>): Record<string, string> {
  const masked: Record<string, string> = {}
  const aws: Record<string, string> = {}
  for (const { name, surrogate } of given) {
    const settings = found.get(name)?.settings
    if (settings === undefined) continue
    if (typeof surrogate === 'string') for (const variable of variablesOf(name, settings)) masked[variable] = surrogate
    else
      for (const [field, variable] of Object.entries(AWS_VARIABLES)) {
        const text = surrogate[field as keyof AwsKeys]
        if (text !== undefined) aws[variable] = text
      }
  }
  return { ...masked, ...aws }
}
