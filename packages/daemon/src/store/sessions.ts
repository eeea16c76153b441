// Sessions. A change of state, its event and the counts are one transaction.
import { FINAL_STATES, LIVE_STATES, SandglassError, type SessionState } from '@sandglass/contract'
import { sql, type Transaction } from 'kysely'
import { appendEvent } from './events.ts'
import type { PendingRequest } from './idempotency.ts'
import type { Store } from './open.ts'
import { DEFAULT_TENANT, type SessionRow, type Tables } from './tables.ts'

export async function insertSession(db: Store, row: SessionRow, request: PendingRequest | null): Promise<void> {
  await db.transact(async trx => {
    try {
      await trx.insertInto('sessions').values(row).execute()
    } catch (error) {
      if (!db.engine.isUniqueViolation(error)) throw error
      throw new SandglassError('NAME_TAKEN', { name: row.name }, { cause: error })
    }
    const labels = Object.entries(JSON.parse(row.labels) as Record<string, string>)
    if (labels.length > 0) {
      await trx
        .insertInto('session_labels')
        .values(labels.map(([name, value]) => ({ session_id: row.id, name, value })))
        .execute()
    }
    if (request) {
      await trx
        .replaceInto('idempotency')
        .values({ tenant: row.tenant, ...request, ...resource(row.id) })
        .execute()
    }
    await appendStateEvent(trx, row, row.created_at)
    await count(trx, row.tenant, row.status, null)
  })
}

/** Stores a new state and the columns that change with it. Fails if the session has left the state of `row` meanwhile. */
export async function changeState(
  db: Store,
  row: SessionRow,
  patch: Partial<SessionRow> & { status: SessionState },
  now: number,
): Promise<SessionRow> {
  const is_final = FINAL_STATES.includes(patch.status) ? 1 : 0
  const changed: SessionRow = { ...row, ...patch, is_final, live_name: is_final ? null : row.name }
  await db.transact(async trx => {
    const { numUpdatedRows } = await trx
      .updateTable('sessions')
      .set({ ...patch, is_final, live_name: changed.live_name })
      .where('id', '=', row.id)
      .where('status', '=', row.status)
      .executeTakeFirst()
    if (numUpdatedRows !== 1n) throw new Error(`session ${row.id} is no longer ${row.status}`)
    await appendStateEvent(trx, changed, now)
    await count(trx, row.tenant, changed.status, row.status)
  })
  return changed
}

const resource = (id: string) => ({ resource_kind: 'session', resource_id: id }) as const

const appendStateEvent = (trx: Transaction<Tables>, row: SessionRow, now: number): Promise<void> =>
  appendEvent(trx, {
    tenant: row.tenant,
    ...resource(row.id),
    type: `session.${row.status}`,
    status: row.status,
    reason: row.reason,
    error_message: row.error_message,
    created_at: now,
  })

/**
 * Counts a session that enters a state or leaves one. Comes last in a transaction: the rows are locked until the commit, and every
 * change of a session in these states needs them.
 */
async function count(
  trx: Transaction<Tables>,
  tenant: string,
  entered: SessionState | null,
  left: SessionState | null,
): Promise<void> {
  if (entered === left) return
  const { numAffectedRows } = await sql`update session_counts set n = n + case status when ${entered} then 1 else -1 end
    where tenant = ${tenant} and status in (${entered}, ${left})`.execute(trx)
  const isUnknown = entered !== null && numAffectedRows !== (left === null ? 1n : 2n)
  // The lock that appendEvent takes keeps another transaction from inserting the same row.
  if (isUnknown) await trx.insertInto('session_counts').values({ tenant, status: entered, n: 1 }).execute()
}

/** Changes columns other than the state. */
export async function patchSession(db: Store, id: string, patch: Partial<SessionRow>): Promise<void> {
  await db.updateTable('sessions').set(patch).where('id', '=', id).execute()
}

export type LeaseWrite = { id: string; last_activity_at: number; expires_at: number | null; cwd: string }

/** Writes many leases in one transaction. Skips sessions that have left the leased states. */
export async function writeLeases(db: Store, writes: readonly LeaseWrite[]): Promise<void> {
  await db.transact(async trx => {
    for (const { id, ...lease } of writes) {
      await trx.updateTable('sessions').set(lease).where('id', '=', id).where('status', 'in', LIVE_STATES).execute()
    }
  })
}

/** A name means the session that has not ended or, if there is none, the latest one. */
export async function findSession(db: Store, ref: { id: string } | { name: string }): Promise<SessionRow | undefined> {
  const sessions = db.selectFrom('sessions').selectAll().where('tenant', '=', DEFAULT_TENANT)
  if ('id' in ref) return sessions.where('id', '=', ref.id).executeTakeFirst()
  const live = await sessions.where('live_name', '=', ref.name).executeTakeFirst()
  return live ?? sessions.where('name', '=', ref.name).orderBy('created_at', 'desc').limit(1).executeTakeFirst()
}

/** Ids of the sessions that are stopped. */
export async function stoppedSessions(db: Store): Promise<string[]> {
  const stopped = db.selectFrom('sessions').select('id').where('tenant', '=', DEFAULT_TENANT).where('status', '=', 'stopped')
  return (await stopped.execute()).map(({ id }) => id)
}

/** Deletes the session with its labels, events and idempotency keys. */
export async function deleteSession(db: Store, id: string): Promise<void> {
  await db.transact(async trx => {
    const row = await trx.selectFrom('sessions').select(['tenant', 'status']).where('id', '=', id).executeTakeFirst()
    if (!row) return
    const { numDeletedRows } = await trx
      .deleteFrom('sessions')
      .where('id', '=', id)
      .where('status', '=', row.status)
      .executeTakeFirst()
    if (numDeletedRows !== 1n) throw new Error(`session ${id} is no longer ${row.status}`)
    for (const table of ['events', 'idempotency'] as const) {
      await trx
        .deleteFrom(table)
        .where('tenant', '=', row.tenant)
        .where('resource_kind', '=', 'session')
        .where('resource_id', '=', id)
        .execute()
    }
    await count(trx, row.tenant, null, row.status)
  })
}

/** Sessions that have not ended, of all tenants, for recovery. */
export const unendedSessions = (db: Store): Promise<SessionRow[]> =>
  db.selectFrom('sessions').selectAll().where('is_final', '=', 0).execute()

export const isEnded = async (db: Store, id: string): Promise<boolean> => {
  const row = await db.selectFrom('sessions').select('is_final').where('id', '=', id).executeTakeFirst()
  return row === undefined || row.is_final === 1
}

/** Sessions of all tenants for the reaper to act on, longest due first. */
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

/** Sessions of all tenants whose retention is over. */
export const retiredSessions = (db: Store, now: number, limit: number): Promise<SessionRow[]> =>
  db.selectFrom('sessions').selectAll().where('delete_at', '<=', now).orderBy('delete_at').limit(limit).execute()

export async function countByState(db: Store): Promise<Map<SessionState, number>> {
  const rows = await db.selectFrom('session_counts').select(['status', 'n']).where('tenant', '=', DEFAULT_TENANT).execute()
  return new Map(rows.map(row => [row.status, row.n]))
}
