// Follows the state changes of one session or of all, from where the reader was.
import { FINAL_STATES, type SessionEventRecord } from '@sandglass/contract'
import { eventsAfter, lastEventId } from '../store/events.ts'
import type { SessionContext } from './context.ts'
import { getSession } from './live.ts'
import { showEvent } from './show.ts'

const PAGE = 500

/** All sessions: what happens from now on, or after `lastId`. */
export async function followAll(
  context: SessionContext,
  lastId: number | null,
  signal: AbortSignal,
): Promise<AsyncGenerator<SessionEventRecord, void, undefined>> {
  return follow(context, lastId ?? (await lastEventId(context.store)), null, signal)
}

/** One session: its whole history, or what came after `lastId`; ends with the session. */
export async function followSession(
  context: SessionContext,
  ref: string,
  lastId: number | null,
  signal: AbortSignal,
): Promise<AsyncGenerator<SessionEventRecord, void, undefined>> {
  const { id } = await getSession(context, ref)
  return follow(context, lastId ?? 0, id, signal)
}

/** The store is the queue: a reader that is slow or comes back reads on there, and nothing is kept for it in memory. */
async function* follow(
  context: SessionContext,
  after: number,
  sessionId: string | null,
  signal: AbortSignal,
): AsyncGenerator<SessionEventRecord, void, undefined> {
  let last = after
  while (!signal.aborted) {
    const changed = context.changes.next(signal)
    const rows = await eventsAfter(context.store, last, sessionId, PAGE)
    for (const row of rows) {
      last = row.id
      yield showEvent(row)
    }
    if (sessionId !== null && (await hasEnded(context, sessionId, last))) return
    if (rows.length === 0) await changed
  }
}

/** Ended, and every event of it was read. */
async function hasEnded(context: SessionContext, id: string, last: number): Promise<boolean> {
  if (context.live.get(id)) return false
  const { status } = await getSession(context, id).catch(() => ({ status: 'terminated' as const }))
  return FINAL_STATES.includes(status) && (await eventsAfter(context.store, last, id, 1)).length === 0
}
