// Tasks: one run of a coding agent each.
import { type SelectQueryBuilder, sql } from 'kysely'
import { cutPage, dateCursor, olderThan, type Page } from './cursor.ts'
import type { PendingRequest } from './idempotency.ts'
import type { Store } from './open.ts'
import { DEFAULT_TENANT, type Tables, type TaskRow } from './tables.ts'

type Query = SelectQueryBuilder<Tables, 'tasks', object>

const tasks = (db: Store): Query => db.selectFrom('tasks').where('tenant', '=', DEFAULT_TENANT)

/** Stores the tasks of one request together with its idempotency key: all of them, or none. */
export async function insertTasks(db: Store, rows: readonly TaskRow[], request: PendingRequest | null): Promise<void> {
  await db.transact(async trx => {
    for (const row of rows) await trx.insertInto('tasks').values(row).execute()
    const [first] = rows
    if (request && first) {
      const response = JSON.stringify(rows.map(({ id }) => id))
      await trx
        .replaceInto('idempotency')
        .values({ tenant: DEFAULT_TENANT, ...request, resource_kind: 'task', resource_id: first.id, response })
        .execute()
    }
  })
}

export const findTask = (db: Store, id: string): Promise<TaskRow | undefined> =>
  tasks(db).selectAll().where('id', '=', id).executeTakeFirst()

export async function patchTask(db: Store, id: string, patch: Partial<TaskRow>): Promise<void> {
  await db.updateTable('tasks').set(patch).where('id', '=', id).execute()
}

/** Marks a task as done and counts its reply and its cost in the context, together. */
export async function endTask(
  db: Store,
  { id, context_folder, total_cost_usd }: Pick<TaskRow, 'id' | 'context_folder' | 'total_cost_usd'>,
  now: number,
): Promise<void> {
  await db.transact(async trx => {
    await trx.updateTable('tasks').set({ status: 'done' }).where('id', '=', id).execute()
    await sql`update contexts set replies = replies + 1, total_cost_usd = total_cost_usd + ${total_cost_usd ?? 0},
      updated_at = ${now} where folder = ${context_folder}`.execute(trx)
  })
}

export async function deleteTask(db: Store, id: string): Promise<void> {
  await db.deleteFrom('tasks').where('id', '=', id).execute()
}

export type QueuedTask = Pick<TaskRow, 'id' | 'context_folder' | 'status' | 'stop_requested'>

/** Tasks that have not ended, oldest first. Without their prompts and requests, which may be large. */
export const unendedTasks = (db: Store): Promise<QueuedTask[]> =>
  tasks(db)
    .select(['id', 'context_folder', 'status', 'stop_requested'])
    .where('status', 'in', ['queued', 'running'])
    .orderBy('created_at')
    .orderBy('id')
    .execute()

export async function countQueued(db: Store): Promise<number> {
  const { n } = await tasks(db)
    .where('status', '=', 'queued')
    .select(eb => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow()
  return Number(n)
}

/** Ended tasks whose retention is over. */
export const retiredTasks = (db: Store, now: number, limit: number): Promise<TaskRow[]> =>
  tasks(db).selectAll().where('delete_at', '<=', now).limit(limit).execute()

/** The tasks of a context, oldest first. */
export const tasksOfContext = (db: Store, folder: string): Promise<TaskRow[]> =>
  tasks(db).selectAll().where('context_folder', '=', folder).orderBy('created_at').orderBy('id').execute()

export type TaskFilter = {
  status?: TaskRow['status'] | undefined
  contextFolder?: string | undefined
  group?: string | undefined
}

/** Newest first. */
export async function listTasks(
  db: Store,
  filter: TaskFilter,
  page: Page,
): Promise<{ rows: TaskRow[]; total: number; nextCursor: string | null }> {
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

function filtered(db: Store, { status, contextFolder, group }: TaskFilter): Query {
  let query = tasks(db)
  if (status !== undefined) query = query.where('status', '=', status)
  if (contextFolder !== undefined) query = query.where('context_folder', '=', contextFolder)
  if (group !== undefined) query = query.where('group_id', '=', group)
  return query
}
