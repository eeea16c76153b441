// Requests with an Idempotency-Key that have been answered, and their replies.
import type { Store } from './open.ts'
import { DEFAULT_TENANT, type IdempotencyRow, type Resource } from './tables.ts'

const KEPT_MS = 24 * 3600 * 1000

/** A request that has not created its resource yet. */
export type PendingRequest = Omit<IdempotencyRow, keyof Resource>

export const findIdempotency = (db: Store, key: string, route: string, now: number): Promise<IdempotencyRow | undefined> =>
  db
    .selectFrom('idempotency')
    .selectAll()
    .where('tenant', '=', DEFAULT_TENANT)
    .where('key', '=', key)
    .where('route', '=', route)
    .where('created_at', '>', now - KEPT_MS)
    .executeTakeFirst()

export async function storeIdempotency(db: Store, row: IdempotencyRow): Promise<void> {
  await db
    .replaceInto('idempotency')
    .values({ ...row, tenant: DEFAULT_TENANT })
    .execute()
}

export async function pruneIdempotency(db: Store, now: number): Promise<void> {
  await db
    .deleteFrom('idempotency')
    .where('created_at', '<=', now - KEPT_MS)
    .execute()
}
