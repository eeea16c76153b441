// Pages of sessions, newest first. An index has each filter's rows in list order, and session_counts has the totals, so the cost of a page
// does not grow with the number of ended sessions.
import { FINAL_STATES, type SessionState } from '@sandglass/contract'
import type { SelectQueryBuilder } from 'kysely'
import { cutPage, dateCursor, olderThan, type Page } from './cursor.ts'
import type { Store } from './open.ts'
import { countByState } from './sessions.ts'
import { DEFAULT_TENANT, type SessionRow, type Tables } from './tables.ts'

export type SessionFilter = {
  status?: SessionState | undefined
  name?: string | undefined
  label?: { name: string; value: string } | undefined
  all: boolean
}

export async function listSessions(
  db: Store,
  filter: SessionFilter,
  page: Page,
): Promise<{ rows: SessionRow[]; total: number; nextCursor: string | null }> {
  let query = filtered(db, filter).selectAll().orderBy('created_at', 'desc').orderBy('id', 'desc')
  if (page.cursor !== undefined) query = query.where(olderThan(page.cursor))
  const rows = await query
    .limit(page.limit + 1)
    .offset(page.offset)
    .execute()
  return { ...cutPage(rows, page.limit, dateCursor), total: await totalOf(db, filter) }
}

type Query = SelectQueryBuilder<Tables, 'sessions', object>

function filtered(db: Store, { status, all, name, label }: SessionFilter): Query {
  let query: Query = db.selectFrom('sessions').where('tenant', '=', DEFAULT_TENANT)
  if (status) query = query.where('status', '=', status)
  else if (!all) query = query.where('is_final', '=', 0)
  if (name !== undefined) query = query.where('name', '=', name)
  if (label) {
    query = query.where('id', 'in', eb =>
      eb.selectFrom('session_labels').select('session_id').where('name', '=', label.name).where('value', '=', label.value),
    )
  }
  return query
}

async function totalOf(db: Store, filter: SessionFilter): Promise<number> {
  if (filter.name !== undefined || filter.label) {
    const row = await filtered(db, filter)
      .select(eb => eb.fn.countAll<number>().as('n'))
      .executeTakeFirstOrThrow()
    return Number(row.n)
  }
  let total = 0
  for (const [status, n] of await countByState(db)) {
    if (filter.status ? status === filter.status : filter.all || !FINAL_STATES.includes(status)) total += n
  }
  return total
}
