// Approvals: held requests and the answers to them. Every change gives an approval the next revision, by which followers read on.
import type { ApprovalState } from '@sandglass/contract'
import { type SelectQueryBuilder, sql, type Transaction } from 'kysely'
import { cutPage, dateCursor, olderThan, type Page } from './cursor.ts'
import type { Store } from './open.ts'
import { type ApprovalRow, DEFAULT_TENANT, type Tables } from './tables.ts'

export type ApprovalChange = Omit<ApprovalRow, 'tenant' | 'revision'>

/**
 * Stores approvals as they are now. Those that have not changed get no revision, one that has its answer is not pending again, and those of a
 * session that has no row any more are left out.
 */
export async function putApprovals(db: Store, changes: readonly ApprovalChange[]): Promise<void> {
  if (changes.length === 0) return
  await db.transact(async trx => {
    const ids = changes.map(change => change.session_id)
    const sessions = await trx.selectFrom('sessions').select('id').where('id', 'in', ids).execute()
    const known = new Set(sessions.map(({ id }) => id))
    for (const change of changes) if (known.has(change.session_id)) await putApproval(trx, change)
  })
}

async function putApproval(trx: Transaction<Tables>, change: ApprovalChange): Promise<void> {
  const stored = await trx.selectFrom('approvals').selectAll().where('id', '=', change.id).executeTakeFirst()
  if (stored === undefined) {
    const row = { ...change, tenant: DEFAULT_TENANT, revision: await nextRevision(trx) }
    await trx.insertInto('approvals').values(row).execute()
    return
  }
  const isOlder = change.status === 'pending' && stored.status !== 'pending'
  const isSame = Object.entries(change).every(([name, value]) => stored[name as keyof ApprovalChange] === value)
  if (isOlder || isSame) return
  const revision = await nextRevision(trx)
  await trx
    .updateTable('approvals')
    .set({ ...change, revision })
    .where('id', '=', change.id)
    .execute()
}

/** The row of the sequence stays locked until the commit, so that revisions become visible in their order. */
async function nextRevision(trx: Transaction<Tables>): Promise<number> {
  await sql`update sequences set value = value + 1 where name = 'approvals'`.execute(trx)
  return await lastRevision(trx)
}

export async function lastRevision(db: Pick<Store, 'selectFrom'>): Promise<number> {
  const row = await db.selectFrom('sequences').select('value').where('name', '=', 'approvals').executeTakeFirstOrThrow()
  return row.value
}

type Query = SelectQueryBuilder<Tables, 'approvals', object>

const approvals = (db: Store): Query => db.selectFrom('approvals').where('tenant', '=', DEFAULT_TENANT)

export const findApproval = (db: Store, id: string): Promise<ApprovalRow | undefined> =>
  approvals(db).selectAll().where('id', '=', id).executeTakeFirst()

export const pendingApprovals = (db: Store): Promise<ApprovalRow[]> =>
  approvals(db).selectAll().where('status', '=', 'pending').execute()

export type ApprovalFilter = { status?: ApprovalState | undefined; sessionId?: string | undefined }

/** Newest first. */
export async function listApprovals(
  db: Store,
  filter: ApprovalFilter,
  page: Page,
): Promise<{ rows: ApprovalRow[]; total: number; nextCursor: string | null }> {
  let query = filtered(db, filter).selectAll().orderBy('created_at', 'desc').orderBy('id', 'desc')
  if (page.cursor !== undefined) query = query.where(olderThan(page.cursor))
  const rows = await query
    .limit(page.limit + 1)
    .offset(page.offset)
    .execute()
  const { n } = await filtered(db, filter)
    .select(eb => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow()
  return { ...cutPage(rows, page.limit, dateCursor), total: Number(n) }
}

function filtered(db: Store, { status, sessionId }: ApprovalFilter): Query {
  let query = approvals(db)
  if (status !== undefined) query = query.where('status', '=', status)
  if (sessionId !== undefined) query = query.where('session_id', '=', sessionId)
  return query
}

/** Approvals that have changed since the revision, in the order of their last changes. */
export const approvalsAfter = (db: Store, revision: number, limit: number): Promise<ApprovalRow[]> =>
  approvals(db).selectAll().where('revision', '>', revision).orderBy('revision').limit(limit).execute()

/** Keeps the last `keep` answers, as many expired ones, and all that are pending: a session that floods cannot push out what people answered. */
export async function pruneApprovals(db: Store, keep: number): Promise<void> {
  for (const statuses of [['expired'], ['allowed', 'denied']] as const) await prune(db, statuses, keep)
}

async function prune(db: Store, statuses: readonly ApprovalRow['status'][], keep: number): Promise<void> {
  const newestToGo = await approvals(db)
    .select('revision')
    .where('status', 'in', statuses)
    .orderBy('revision', 'desc')
    .limit(1)
    .offset(keep)
    .executeTakeFirst()
  if (newestToGo === undefined) return
  await db
    .deleteFrom('approvals')
    .where('tenant', '=', DEFAULT_TENANT)
    .where('revision', '<=', newestToGo.revision)
    .where('status', 'in', statuses)
    .execute()
}
