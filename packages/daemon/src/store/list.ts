// Pages of sessions, newest first. Each filter walks an index in list order, and totals are kept by triggers,
// so that a page costs the same however many sessions have ended before.
import { FINAL_STATES, SandglassError, type SessionState } from '@sandglass/contract'
import type { SelectQueryBuilder } from 'kysely'
import type { Store } from './open.ts'
import { countByState } from './sessions.ts'
import type { SessionRow, Tables } from './tables.ts'

export type SessionFilter = {
  status?: SessionState | undefined
  name?: string | undefined
  label?: { name: string; value: string } | undefined
  all: boolean
}
export type Page = { limit: number; offset: number; cursor?: string | undefined }

export async function listSessions(
  db: Store,
  filter: SessionFilter,
  page: Page,
): Promise<{ rows: SessionRow[]; total: number; nextCursor: string | null }> {
  let query = filtered(db, filter).selectAll('sessions').orderBy('sessions.created_at', 'desc').orderBy('sessions.id', 'desc')
  if (page.cursor !== undefined) {
    const { createdAt, id } = parseCursor(page.cursor)
    query = query.where(eb => eb(eb.refTuple('sessions.created_at', 'sessions.id'), '<', eb.tuple(createdAt, id)))
  }
  const rows = await query
    .limit(page.limit + 1)
    .offset(page.offset)
    .execute()
  const last = rows.length > page.limit ? rows[page.limit - 1] : undefined
  return { rows: rows.slice(0, page.limit), total: await totalOf(db, filter), nextCursor: last ? cursorOf(last) : null }
}

type Query = SelectQueryBuilder<Tables, 'sessions', object>

function filtered(db: Store, filter: SessionFilter): Query {
  let query: Query = db.selectFrom('sessions')
  if (filter.status) query = query.where('sessions.status', '=', filter.status)
  else if (!filter.all) query = query.where('sessions.is_final', '=', 0)
  if (filter.name !== undefined) query = query.where('sessions.name', '=', filter.name)
  const { label } = filter
  if (label) {
    query = query.where('sessions.id', 'in', eb =>
      eb
        .selectFrom('session_labels')
        .select('session_id')
        .where('session_labels.name', '=', label.name)
        .where('session_labels.value', '=', label.value),
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

const cursorOf = (row: SessionRow) => Buffer.from(`${row.created_at}.${row.id}`).toString('base64url')

function parseCursor(cursor: string): { createdAt: number; id: string } {
  const [, createdAt, id] = /^(\d{1,15})\.(sess_[a-z0-9]{16})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? []
  if (!createdAt || !id) throw new SandglassError('INVALID_REQUEST', { issue: 'cursor: is not one that a list gave' })
  return { createdAt: Number(createdAt), id }
}
