// Events: the state changes of resources, in the order of their commits. A follower reads on from the last id it has seen.
import { sql, type Transaction } from 'kysely'
import type { Store } from './open.ts'
import { DEFAULT_TENANT, type EventRow, type Resource, type Tables } from './tables.ts'

/**
 * Appends an event inside the transaction that changes the resource. The row of the sequence stays locked until the commit, so that
 * events become visible in the order of their ids: a follower would miss an event that appears below an id it has read already.
 */
export async function appendEvent(trx: Transaction<Tables>, event: Omit<EventRow, 'id'>): Promise<void> {
  await sql`update sequences set value = value + 1 where name = 'events'`.execute(trx)
  const { tenant, resource_kind, resource_id, type, status, reason, error_message, created_at } = event
  await sql`insert into events (id, tenant, resource_kind, resource_id, type, status, reason, error_message, created_at)
    select value, ${tenant}, ${resource_kind}, ${resource_id}, ${type}, ${status}, ${reason}, ${error_message}, ${created_at}
    from sequences where name = 'events'`.execute(trx)
}

/** The events of one resource or, without `resource_id`, of every resource of the kind. */
export function eventsAfter(
  db: Store,
  after: number,
  { resource_kind, resource_id }: { resource_kind: Resource['resource_kind']; resource_id?: string | undefined },
  limit: number,
): Promise<EventRow[]> {
  const query = db
    .selectFrom('events')
    .selectAll()
    .where('tenant', '=', DEFAULT_TENANT)
    .where('resource_kind', '=', resource_kind)
  const of = resource_id === undefined ? query : query.where('resource_id', '=', resource_id)
  return of.where('id', '>', after).orderBy('id').limit(limit).execute()
}

export async function lastEventId(db: Store): Promise<number> {
  const row = await db.selectFrom('sequences').select('value').where('name', '=', 'events').executeTakeFirstOrThrow()
  return row.value
}

/** Keeps the latest `keep` events of all tenants. */
export async function pruneEvents(db: Store, keep: number): Promise<void> {
  const last = await lastEventId(db)
  await db
    .deleteFrom('events')
    .where('id', '<=', last - keep)
    .execute()
}
