// Which requests with an Idempotency-Key have been answered, and with what.
import type { Store } from './open.ts'
import type { IdempotencyRow } from './tables.ts'

const KEPT_MS = 24 * 3600 * 1000

export const findIdempotency = (db: Store, key: string, route: string, now: number): Promise<IdempotencyRow | undefined> =>
  db
    .selectFrom('idempotency')
    .selectAll()
    .where('key', '=', key)
    .where('route', '=', route)
    .where('created_at', '>', now - KEPT_MS)
    .executeTakeFirst()

export async function storeIdempotency(db: Store, row: IdempotencyRow): Promise<void> {
  await db.replaceInto('idempotency').values(row).execute()
}

export async function pruneIdempotency(db: Store, now: number): Promise<void> {
  await db
    .deleteFrom('idempotency')
    .where('created_at', '<=', now - KEPT_MS)
    .execute()
}
