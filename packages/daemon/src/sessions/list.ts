// GET /v1/sessions: a page, newest first; ended sessions only when asked for.
import { LIMITS, SandglassError, type SessionList, type SessionQuery } from '@sandglass/contract'
import type { z } from 'zod'
import { listSessions as listRows } from '../store/list.ts'
import type { SessionContext } from './context.ts'
import { showSession } from './show.ts'

export async function listSessions(context: SessionContext, query: SessionQuery): Promise<z.infer<typeof SessionList>> {
  const limit = query.limit ?? LIMITS.list_page.default
  const offset = query.offset ?? 0
  const filter = { status: query.status, name: query.name, label: parseLabel(query.label), all: query.all ?? false }
  const { rows, total, nextCursor } = await listRows(context.store, filter, { limit, offset, cursor: query.cursor })
  return {
    items: rows.map(row => showSession(context.live.get(row.id)?.row ?? row)),
    total,
    limit,
    offset,
    next_cursor: nextCursor,
  }
}

function parseLabel(text: string | undefined): { name: string; value: string } | undefined {
  if (text === undefined) return undefined
  const at = text.indexOf('=')
  if (at < 1) throw new SandglassError('INVALID_REQUEST', { issue: 'label: must be name=value' })
  return { name: text.slice(0, at), value: text.slice(at + 1) }
}
