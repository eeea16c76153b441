// State changes in the order they were stored; a follower reads on from the last id it has seen.
import type { Store } from './open.ts'
import type { EventRow } from './tables.ts'

export function eventsAfter(db: Store, after: number, sessionId: string | null, limit: number): Promise<EventRow[]> {
  let query = db.selectFrom('events').selectAll().where('id', '>', after).orderBy('id').limit(limit)
  if (sessionId !== null) query = query.where('session_id', '=', sessionId)
  return query.execute()
}

export async function lastEventId(db: Store): Promise<number> {
  const row = await db.selectFrom('events').select('id').orderBy('id', 'desc').limit(1).executeTakeFirst()
  return row?.id ?? 0
}

export async function pruneEvents(db: Store, keep: number): Promise<void> {
  await db
    .deleteFrom('events')
    .where('id', '<=', (await lastEventId(db)) - keep)
    .execute()
}
