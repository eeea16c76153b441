// The one way a session changes state: looked up in the table, stored with its event, then announced and logged.
import { FINAL_STATES, nextState, type Reason, type SessionEvent, type SessionState } from '@sandglass/contract'
import type { Logger } from '../../log.ts'
import { changeState } from '../../store/sessions.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import { dueAt } from '../lease/lease.ts'

const RETENTION_MS = 7 * 24 * 3600 * 1000

export type Change = {
  reason: Reason
  error_message?: string | null
  /** LimitHit as JSON. */
  limit_hit?: string
  container_id?: string | null
  unenforced?: string
  started_at?: number
  cwd?: string
}

/** The caller has the session's turn. */
export async function transition(
  context: SessionContext,
  row: SessionRow,
  event: SessionEvent,
  change: Change,
  log: Logger = context.log,
): Promise<SessionRow> {
  const status = nextState(row.id, row.status, event, row.name)
  const now = context.now()
  const patch = { error_message: null, limit_hit: null, cwd: row.cwd, ...change, status, ...timesOf(context, row, status, now) }
  const { row: stored } = await context.ballast.whenFull(() => changeState(context.store, row, patch, now))
  const live = context.live.get(row.id)
  if (live) live.row = stored
  context.changes.announce()
  context.reaper.nudge(stored.expires_at)
  log.info(
    { sessionId: row.id, from: row.status, to: status, reason: change.reason, error: patch.error_message ?? undefined },
    'session changed state',
  )
  return stored
}

/** An ended session has a retention. A failed one still has its files: a persistent session keeps them until it is removed. */
function timesOf(
  context: SessionContext,
  row: SessionRow,
  status: SessionState,
  now: number,
): Pick<SessionRow, 'expires_at' | 'last_activity_at' | 'terminated_at' | 'delete_at'> {
  const ended = status === 'failed' || FINAL_STATES.includes(status)
  return {
    expires_at: dueAt(context, row, status, now),
    last_activity_at: TOUCHED.includes(status) ? now : row.last_activity_at,
    terminated_at: ended ? (row.terminated_at ?? now) : null,
    delete_at: ended && !(status === 'failed' && row.mode === 'persistent') ? now + RETENTION_MS : null,
  }
}

const TOUCHED: readonly SessionState[] = ['running', 'paused', 'stopped']
