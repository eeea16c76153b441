// The rows of sessions. Every change of state and its event are one transaction.
import { FINAL_STATES, LIVE_STATES, SandglassError, type SessionState } from '@sandglass/contract'
import { sql, type Transaction } from 'kysely'
import type { Store } from './open.ts'
import type { EventRow, IdempotencyRow, SessionRow, Tables } from './tables.ts'

export async function insertSession(db: Store, row: SessionRow, idempotency: IdempotencyRow | null): Promise<EventRow> {
  try {
    return await db.transaction().execute(async trx => {
      await trx.insertInto('sessions').values(row).execute()
      const labels = Object.entries(JSON.parse(row.labels) as Record<string, string>)
      if (labels.length > 0) {
        await trx
          .insertInto('session_labels')
          .values(labels.map(([name, value]) => ({ session_id: row.id, name, value })))
          .execute()
      }
      if (idempotency) await trx.replaceInto('idempotency').values(idempotency).execute()
      return insertEvent(trx, row, row.created_at)
    })
  } catch (error) {
    if (error instanceof Error && error.message.includes('sessions.live_name'))
      throw new SandglassError('NAME_TAKEN', { name: row.name }, { cause: error })
    throw error
  }
}

/** Stores a new state with what changes beside it. `from` guards against a state that somebody else has left meanwhile. */
export async function changeState(
  db: Store,
  row: SessionRow,
  patch: Partial<SessionRow> & { status: SessionState },
  now: number,
): Promise<{ row: SessionRow; event: EventRow }> {
  const is_final = isFinal(patch.status) ? 1 : 0
  const change = { ...patch, is_final, live_name: is_final ? null : row.name } as const
  const event = await db.transaction().execute(async trx => {
    const done = await trx
      .updateTable('sessions')
      .set(change)
      .where('id', '=', row.id)
      .where('status', '=', row.status)
      .executeTakeFirst()
    if (done.numUpdatedRows !== 1n) throw new Error(`session ${row.id} is no longer ${row.status}`)
    return insertEvent(trx, { ...row, ...change }, now)
  })
  return { row: { ...row, ...change }, event }
}

const isFinal = (state: SessionState) => FINAL_STATES.includes(state)

async function insertEvent(trx: Transaction<Tables>, row: SessionRow, now: number): Promise<EventRow> {
  const event = {
    session_id: row.id,
    type: `session.${row.status}`,
    status: row.status,
    reason: row.reason,
    error_message: row.error_message,
    created_at: now,
  }
  const { insertId } = await trx.insertInto('events').values(event).executeTakeFirstOrThrow()
  return { id: Number(insertId), ...event }
}

/** Changes columns that are not the state. */
export async function patchSession(db: Store, id: string, patch: Partial<SessionRow>): Promise<void> {
  await db.updateTable('sessions').set(patch).where('id', '=', id).execute()
}

export type LeaseWrite = { id: string; last_activity_at: number; expires_at: number | null; cwd: string }

/** Many leases in one transaction. A session that has left the states with a lease is not changed. */
export async function writeLeases(db: Store, writes: readonly LeaseWrite[]): Promise<void> {
  await db.transaction().execute(async trx => {
    for (const { id, ...lease } of writes) {
      await trx.updateTable('sessions').set(lease).where('id', '=', id).where('status', 'in', LIVE_STATES).execute()
    }
  })
}

export async function findSession(db: Store, ref: { id: string } | { name: string }): Promise<SessionRow | undefined> {
  if ('id' in ref) return db.selectFrom('sessions').selectAll().where('id', '=', ref.id).executeTakeFirst()
  const live = await db.selectFrom('sessions').selectAll().where('live_name', '=', ref.name).executeTakeFirst()
  if (live) return live
  return db
    .selectFrom('sessions')
    .selectAll()
    .where('name', '=', ref.name)
    .orderBy('created_at', 'desc')
    .limit(1)
    .executeTakeFirst()
}

export async function deleteSession(db: Store, id: string): Promise<void> {
  await db.deleteFrom('sessions').where('id', '=', id).execute()
}

/** Everything that has not ended: what reconcile looks at. */
export const unendedSessions = (db: Store): Promise<SessionRow[]> =>
  db.selectFrom('sessions').selectAll().where('is_final', '=', 0).execute()

export const isEnded = async (db: Store, id: string): Promise<boolean> => {
  const row = await db.selectFrom('sessions').select('is_final').where('id', '=', id).executeTakeFirst()
  return row === undefined || row.is_final === 1
}

export const dueSessions = (db: Store, now: number, limit: number): Promise<SessionRow[]> =>
  db.selectFrom('sessions').selectAll().where('expires_at', '<=', now).orderBy('expires_at').limit(limit).execute()

export async function nextExpiry(db: Store): Promise<number | null> {
  const row = await db
    .selectFrom('sessions')
    .select(eb => eb.fn.min('expires_at').as('at'))
    .where('expires_at', 'is not', null)
    .executeTakeFirst()
  return row?.at ?? null
}

export const retiredSessions = (db: Store, now: number, limit: number): Promise<SessionRow[]> =>
  db.selectFrom('sessions').selectAll().where('delete_at', '<=', now).orderBy('delete_at').limit(limit).execute()

export async function countByState(db: Store): Promise<Map<SessionState, number>> {
  const rows = await sql<{ status: SessionState; n: number }>`select status, n from session_counts`.execute(db)
  return new Map(rows.rows.map(r => [r.status, r.n]))
}
