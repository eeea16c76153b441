// Secrets by name. The store gets sealed values; only the daemon itself unseals them.
import {
  type Config,
  CREDENTIALS,
  type CredentialKey,
  LIMITS,
  type RouteReply,
  SandglassError,
  type SecretQuery,
} from '@sandglass/contract'
import type { Store } from '../store/open.ts'
import * as rows from '../store/secrets.ts'
import type { SecretRow } from '../store/tables.ts'
import { seal, unseal } from './encryption.ts'

/** The part of the daemon's context that these functions need. */
export type Vault = { readonly store: Store; readonly secretKey: Buffer; readonly now: () => number }

export async function putSecret(vault: Vault, name: string, value: string): Promise<RouteReply<'putSecret'>> {
  return shown(await rows.putSecret(vault.store, name, seal(vault.secretKey, ownerOf(name), value), vault.now()))
}

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
export async function revealSecret({ store, secretKey }: Vault, name: string): Promise<string | undefined> {
  const row = await rows.findSecret(store, name)
  return row && unseal(secretKey, ownerOf(name), row, `the secret ${name}`)
}

/** The API key of an agent or a backend: the value in the configuration or, without one, the secret of that name. */
export async function credential(
  vault: Vault & { readonly config: Readonly<Config> },
  key: CredentialKey,
): Promise<string | undefined> {
  return configured(vault.config, key) ?? (await revealSecret(vault, CREDENTIALS[key]))
}

function configured(config: Readonly<Config>, key: CredentialKey): string | undefined {
  if (key === 'sprites_token') return config.sprites_token
  return config.agent_api_keys[key.slice('agent_api_keys.'.length) as keyof Config['agent_api_keys']]
}

/** The prefix separates secrets from the other values that the key seals. */
const ownerOf = (name: string) => `secret:${name}`

function shown({ name, created_at, updated_at }: Omit<SecretRow, 'nonce' | 'ciphertext'>): RouteReply<'putSecret'> {
  return { name, created_at: new Date(created_at).toISOString(), updated_at: new Date(updated_at).toISOString() }
}
