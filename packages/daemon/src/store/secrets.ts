// Sealed secrets, and the fingerprint of the key that sealed them. This file never sees a plain value.
import { cutPage, nameCursor, nameOf, type Page } from './cursor.ts'
import type { Store } from './open.ts'
import { DEFAULT_TENANT, type SecretRow } from './tables.ts'

type Sealed = Pick<SecretRow, 'nonce' | 'ciphertext'>
type Listed = Omit<SecretRow, keyof Sealed>

/** `settings` is JSON; when absent, those of the stored secret stay. */
export function putSecret(db: Store, name: string, sealed: Sealed, settings: string | undefined, now: number): Promise<Listed> {
  return db.transact(async trx => {
    const found = await trx
      .selectFrom('secrets')
      .select(['created_at', 'settings'])
      .where('tenant', '=', DEFAULT_TENANT)
      .where('name', '=', name)
      .executeTakeFirst()
    const listed = { name, settings: settings ?? found?.settings ?? null, created_at: found?.created_at ?? now, updated_at: now }
    await trx
      .replaceInto('secrets')
      .values({ tenant: DEFAULT_TENANT, ...listed, ...sealed })
      .execute()
    return listed
  })
}

export const findSecret = (db: Store, name: string): Promise<SecretRow | undefined> =>
  db.selectFrom('secrets').selectAll().where('tenant', '=', DEFAULT_TENANT).where('name', '=', name).executeTakeFirst()

export const findSecrets = (db: Store, names: readonly string[]): Promise<SecretRow[]> =>
  names.length === 0
    ? Promise.resolve([])
    : db.selectFrom('secrets').selectAll().where('tenant', '=', DEFAULT_TENANT).where('name', 'in', names).execute()

/** Ordered by name. */
export async function listSecrets(
  db: Store,
  { limit, offset, cursor }: Page,
): Promise<{ rows: Listed[]; total: number; nextCursor: string | null }> {
  const secrets = db.selectFrom('secrets').where('tenant', '=', DEFAULT_TENANT)
  let query = secrets.select(['name', 'settings', 'created_at', 'updated_at']).orderBy('name')
  if (cursor !== undefined) query = query.where('name', '>', nameOf(cursor))
  const rows = await query
    .limit(limit + 1)
    .offset(offset)
    .execute()
  const { n } = await secrets.select(eb => eb.fn.countAll<number>().as('n')).executeTakeFirstOrThrow()
  return { ...cutPage(rows, limit, nameCursor), total: Number(n) }
}

export async function deleteSecret(db: Store, name: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('secrets')
    .where('tenant', '=', DEFAULT_TENANT)
    .where('name', '=', name)
    .executeTakeFirst()
  return numDeletedRows > 0n
}

/** True if a sealed value is still needed, of any tenant: a secret, or the environment of a session that has not ended. */
export async function hasSealed(db: Store): Promise<boolean> {
  const secret = await db.selectFrom('secrets').select('name').limit(1).executeTakeFirst()
  if (secret) return true
  const session = await db
    .selectFrom('sessions')
    .select('id')
    .where('is_final', '=', 0)
    .where('env_sealed', 'is not', null)
    .limit(1)
    .executeTakeFirst()
  return session !== undefined
}

const KEY_FINGERPRINT = 'secret_key'

export async function readKeyFingerprint(db: Store): Promise<string | undefined> {
  return (await db.selectFrom('meta').select('value').where('name', '=', KEY_FINGERPRINT).executeTakeFirst())?.value
}

export async function writeKeyFingerprint(db: Store, value: string): Promise<void> {
  await db.replaceInto('meta').values({ name: KEY_FINGERPRINT, value }).execute()
}
