// Secrets by name. The store gets sealed values; only the daemon itself unseals them.
import {
  type Config,
  CREDENTIALS,
  type CredentialKey,
  LIMITS,
  type RouteReply,
  SandglassError,
  type SecretQuery,
  type SecretSettings,
  type SecretSpec,
} from '@sandglass/contract'
import { makeSurrogate } from '@sandglass/egress/surrogate'
import type { Store } from '../store/open.ts'
import * as rows from '../store/secrets.ts'
import type { SecretRow } from '../store/tables.ts'
import { seal, unseal } from './encryption.ts'
import { awsKeysOf, settingsOf, storedSettings, variablesOf } from './settings.ts'

/** The part of the daemon's context that these functions need. */
export type Vault = { readonly store: Store; readonly secretKey: Buffer; readonly now: () => number }

/** Replaces value and settings. */
export async function putSecret(vault: Vault, name: string, spec: SecretSpec): Promise<RouteReply<'putSecret'>> {
  const settings = settingsOf(name, spec)
  refuseUnusable(name, settings, spec.value)
  return shown(await rows.putSecret(vault.store, name, sealed(vault, name, spec.value), JSON.stringify(settings), vault.now()))
}

/** Replaces the value and keeps the settings. */
export async function rotateSecret(vault: Vault, name: string, value: string): Promise<RouteReply<'rotateSecret'>> {
  const row = await rows.findSecret(vault.store, name)
  if (row === undefined) throw new SandglassError('SECRET_NOT_FOUND', { name })
  refuseUnusable(name, storedSettings(row.settings), value)
  return shown(await rows.putSecret(vault.store, name, sealed(vault, name, value), undefined, vault.now()))
}

/** A secret that sessions can use needs a value that a surrogate can stand for. */
function refuseUnusable(name: string, { kind, scopes }: SecretSettings, value: string): void {
  if (kind === 'aws') awsKeysOf(name, value)
  else if (scopes.length > 0) makeSurrogate(value)
}

const sealed = ({ secretKey }: Vault, name: string, value: string) => seal(secretKey, ownerOf(name), value)

export async function listSecrets({ store }: Vault, query: SecretQuery): Promise<RouteReply<'listSecrets'>> {
  const page = { limit: query.limit ?? LIMITS.list_page.default, offset: query.offset ?? 0 }
  const found = await rows.listSecrets(store, { ...page, cursor: query.cursor })
  return { items: found.rows.map(shown), total: found.total, ...page, next_cursor: found.nextCursor }
}

export async function removeSecret({ store }: Vault, name: string): Promise<{ ok: true }> {
  if (!(await rows.deleteSecret(store, name))) throw new SandglassError('SECRET_NOT_FOUND', { name })
  return { ok: true }
}

/** SECURITY: for the daemon's own use; no route returns the value. Undefined if no secret has that name. */
export async function revealSecret(vault: Vault, name: string): Promise<string | undefined> {
  const row = await rows.findSecret(vault.store, name)
  return row && openRow(vault, row)
}

export const openRow = ({ secretKey }: Vault, row: SecretRow): string =>
  unseal(secretKey, ownerOf(row.name), row, `the secret ${row.name}`)

/**
 * Stores the keys of agents that the configuration has, so that sessions can use them. A value that is still in the configuration wins over the
 * secret. One that stays the same is not written again.
 */
export async function storeConfiguredKeys(vault: Vault & { readonly config: Readonly<Config> }): Promise<string[]> {
  const stored: string[] = []
  for (const [agent, value] of Object.entries(vault.config.agent_api_keys)) {
    const name = CREDENTIALS[`agent_api_keys.${agent}` as CredentialKey]
    const row = await rows.findSecret(vault.store, name)
    const isSame = row !== undefined && storedSettings(row.settings).scopes.length > 0 && openRow(vault, row) === value
    if (isSame) continue
    await putSecret(vault, name, { value })
    stored.push(name)
  }
  return stored
}

/** The prefix separates secrets from the other values that the key seals. */
const ownerOf = (name: string) => `secret:${name}`

function shown({ name, settings, created_at, updated_at }: Omit<SecretRow, 'nonce' | 'ciphertext'>): RouteReply<'putSecret'> {
  const iso = (ms: number) => new Date(ms).toISOString()
  const found = storedSettings(settings)
  const [variable] = found.kind === 'masked' && found.scopes.length > 0 ? variablesOf(name, found) : []
  return { name, ...found, env: found.env ?? variable ?? null, created_at: iso(created_at), updated_at: iso(updated_at) }
}
