// GET /v1/sessions: a page, newest first; ended sessions only when asked for.
import { LIMITS, SandglassError, type SessionList, type SessionQuery } from '@sandglass/contract'
import type { z } from 'zod'
import type { SessionContext } from './context.ts'
import { listRecords } from './session-record.ts'
import { showSession } from './show.ts'

export async function listSessions(context: SessionContext, query: SessionQuery): Promise<z.infer<typeof SessionList>> {
  const limit = query.limit ?? LIMITS.list_page.default
  const offset = query.offset ?? 0
  const filter = { status: query.status, name: query.name, label: parseLabel(query.label), all: query.all ?? false }
  const { records, total, nextCursor } = await listRecords(context.store, filter, { limit, offset, cursor: query.cursor })
  return {
    items: records.map(record => showSession(context.live.get(record.id)?.record ?? record)),
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
