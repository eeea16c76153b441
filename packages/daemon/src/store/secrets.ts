// The rows of secrets, and the mark of the key that sealed them. Values come and go sealed.
import { sql } from 'kysely'
import type { Store } from './open.ts'
import type { SecretRow } from './tables.ts'

type Sealed = Pick<SecretRow, 'nonce' | 'ciphertext'>
export type SecretPage = { limit: number; offset: number; after: string | undefined }
type Listed = Omit<SecretRow, keyof Sealed>

export function putSecret(db: Store, name: string, sealed: Sealed, now: number): Promise<Listed> {
  return db.transaction().execute(async trx => {
    const found = await trx.selectFrom('secrets').select('created_at').where('name', '=', name).executeTakeFirst()
    const row = { name, ...sealed, created_at: found?.created_at ?? now, updated_at: now }
    await trx.replaceInto('secrets').values(row).execute()
    return row
  })
}

export const findSecret = (db: Store, name: string): Promise<SecretRow | undefined> =>
  db.selectFrom('secrets').selectAll().where('name', '=', name).executeTakeFirst()

/** By name. `nextCursor` is the last name of a page that is not the last. */
export async function listSecrets(
  db: Store,
  { limit, offset, after }: SecretPage,
): Promise<{ items: Listed[]; total: number; nextCursor: string | null }> {
  let query = db.selectFrom('secrets').select(['name', 'created_at', 'updated_at']).orderBy('name')
  if (after !== undefined) query = query.where('name', '>', after)
  const rows = await query
    .limit(limit + 1)
    .offset(offset)
    .execute()
  const { n } = await db
    .selectFrom('secrets')
    .select(eb => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow()
  const items = rows.slice(0, limit)
  return { items, total: Number(n), nextCursor: rows.length > limit ? (items.at(-1)?.name ?? null) : null }
}

export async function deleteSecret(db: Store, name: string): Promise<boolean> {
  const { numDeletedRows } = await db.deleteFrom('secrets').where('name', '=', name).executeTakeFirst()
  return numDeletedRows > 0n
}

/** True when something is there that has to be opened again: a secret, or the environment of a session that has not ended. */
export async function hasSealed(db: Store): Promise<boolean> {
  const secret = await db.selectFrom('secrets').select(sql`1`.as('one')).limit(1).executeTakeFirst()
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

const KEY_MARK = 'secret_key'

export async function readKeyMark(db: Store): Promise<string | undefined> {
  return (await db.selectFrom('meta').select('value').where('name', '=', KEY_MARK).executeTakeFirst())?.value
}

export async function writeKeyMark(db: Store, value: string): Promise<void> {
  await db.replaceInto('meta').values({ name: KEY_MARK, value }).execute()
}
