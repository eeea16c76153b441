// Secrets by name: sealed on their way into the store, and opened for the daemon alone.
import { LIMITS, type RouteReply, SandglassError, type SecretQuery } from '@sandglass/contract'
import type { Store } from '../store/open.ts'
import * as rows from '../store/secrets.ts'
import type { SecretRow } from '../store/tables.ts'
import { seal, unseal } from './seal.ts'

/** What the verbs work with; the daemon's world has it. */
export type Vault = { readonly store: Store; readonly secretKey: Buffer; readonly now: () => number }

export async function putSecret(vault: Vault, name: string, value: string): Promise<RouteReply<'putSecret'>> {
  return shown(await rows.putSecret(vault.store, name, seal(vault.secretKey, ownerOf(name), value), vault.now()))
}

export async function listSecrets({ store }: Vault, query: SecretQuery): Promise<RouteReply<'listSecrets'>> {
  const page = { limit: query.limit ?? LIMITS.list_page.default, offset: query.offset ?? 0 }
  const { items, total, nextCursor } = await rows.listSecrets(store, { ...page, after: afterCursor(query.cursor) })
  return { items: items.map(shown), total, ...page, next_cursor: nextCursor === null ? null : cursorOf(nextCursor) }
}

export async function removeSecret({ store }: Vault, name: string): Promise<{ ok: true }> {
  if (!(await rows.deleteSecret(store, name))) throw new SandglassError('SECRET_NOT_FOUND', { name })
  return { ok: true }
}

/** SECURITY: for the daemon's own use; no route answers with it. Undefined when there is none of that name. */
export async function revealSecret({ store, secretKey }: Vault, name: string): Promise<string | undefined> {
  const row = await rows.findSecret(store, name)
  return row && unseal(secretKey, ownerOf(name), row, `the secret ${name}`)
}

/** The prefix keeps secrets apart from what else the key seals. */
const ownerOf = (name: string) => `secret:${name}`

function shown({ name, created_at, updated_at }: Omit<SecretRow, 'nonce' | 'ciphertext'>): RouteReply<'putSecret'> {
  return { name, created_at: new Date(created_at).toISOString(), updated_at: new Date(updated_at).toISOString() }
}

const cursorOf = (name: string) => Buffer.from(name).toString('base64url')
const afterCursor = (cursor: string | undefined) =>
  cursor === undefined ? undefined : Buffer.from(cursor, 'base64url').toString()
