// Streams the state changes of one session or of all sessions, starting after the last event that the client has seen.
import { FINAL_STATES, type SessionEventRecord } from '@sandglass/contract'
import { eventsAfter, lastEventId } from '../store/events.ts'
import type { SessionContext } from './context.ts'
import { getSession } from './live.ts'
import { showEvent } from './show.ts'

const PAGE = 500

/** Events of all sessions after `lastId`; without it, only those that follow. */
export async function followAll(
  context: SessionContext,
  lastId: number | null,
  signal: AbortSignal,
): Promise<AsyncGenerator<SessionEventRecord, void, undefined>> {
  return follow(context, lastId ?? (await lastEventId(context.store)), null, signal)
}

/** Events of one session after `lastId`; without it, from its creation. The stream ends when the session has ended. */
export async function followSession(
  context: SessionContext,
  ref: string,
  lastId: number | null,
  signal: AbortSignal,
): Promise<AsyncGenerator<SessionEventRecord, void, undefined>> {
  const { id } = await getSession(context, ref)
  return follow(context, lastId ?? 0, id, signal)
}

/** Reads from the store, which is the queue: a slow or returning client costs no memory here. */
async function* follow(
  context: SessionContext,
  after: number,
  sessionId: string | null,
  signal: AbortSignal,
): AsyncGenerator<SessionEventRecord, void, undefined> {
  let last = after
  while (!signal.aborted) {
    const changed = context.changes.next(signal)
    const rows = await eventsAfter(context.store, last, sessionEvents(sessionId), PAGE)
    for (const row of rows) {
      last = row.id
      yield showEvent(row)
    }
    if (sessionId !== null && (await hasEnded(context, sessionId, last))) return
    if (rows.length === 0) await changed
  }
}

const sessionEvents = (id: string | null) => ({ resource_kind: 'session', resource_id: id ?? undefined }) as const

/** True if the session has ended and the client has got all of its events. */
async function hasEnded(context: SessionContext, id: string, last: number): Promise<boolean> {
  if (context.live.get(id)) return false
  const { status } = await getSession(context, id).catch(() => ({ status: 'terminated' as const }))
  return FINAL_STATES.includes(status) && (await eventsAfter(context.store, last, sessionEvents(id), 1)).length === 0
}
