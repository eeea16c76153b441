// Held requests and the answers to them, as the API lists and streams them.
import { type Approval, type ApprovalQuery, LIMITS, type RouteReply } from '@sandglass/contract'
import type { SessionContext } from '../sessions/context.ts'
import { getSession } from '../sessions/live.ts'
import {
  type ApprovalChange,
  approvalsAfter,
  lastRevision,
  listApprovals as listRows,
  pendingApprovals,
} from '../store/approvals.ts'

const PAGE = 500

export async function listApprovals(context: SessionContext, query: ApprovalQuery): Promise<RouteReply<'listApprovals'>> {
  const page = { limit: query.limit ?? LIMITS.list_page.default, offset: query.offset ?? 0 }
  const sessionId = query.session === undefined ? undefined : (await getSession(context, query.session)).id
  const found = await listRows(context.store, { status: query.status, sessionId }, { ...page, cursor: query.cursor })
  return { items: found.rows.map(shownApproval), total: found.total, ...page, next_cursor: found.nextCursor }
}

export type ApprovalEvent = { revision: number; approval: Approval }

/**
 * Approvals as they change, after the revision `last`; without it, the pending ones first. An approval that changed twice since is sent once,
 * as it is now.
 */
export async function* followApprovals(
  { store, approvalChanges }: SessionContext,
  last: number | null,
  signal: AbortSignal,
): AsyncGenerator<ApprovalEvent, void, undefined> {
  let seen = last ?? (await lastRevision(store))
  if (last === null) {
    const pending = (await pendingApprovals(store)).filter(({ revision }) => revision <= seen)
    for (const row of pending.sort((a, b) => a.revision - b.revision))
      yield { revision: row.revision, approval: shownApproval(row) }
  }
  while (!signal.aborted) {
    const changed = approvalChanges.next(signal)
    const rows = await approvalsAfter(store, seen, PAGE)
    for (const row of rows) {
      seen = row.revision
      yield { revision: row.revision, approval: shownApproval(row) }
    }
    if (rows.length === 0) await changed
  }
}

export const shownApproval = (row: ApprovalChange): Approval => ({
  id: row.id,
  session_id: row.session_id,
  session_name: row.session_name,
  status: row.status,
  method: row.method,
  url: row.url,
  host: row.host,
  port: row.port,
  scope: row.scope,
  requests: row.requests,
  requested_at: iso(row.created_at),
  expires_at: iso(row.expires_at),
  answered_at: row.answered_at === null ? null : iso(row.answered_at),
})

const iso = (ms: number) => new Date(ms).toISOString()
