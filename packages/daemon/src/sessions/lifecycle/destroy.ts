// Ends a session for good: DELETE, terminate, and the end of its lease. Twice is the same as once.
import { FINAL_STATES, type Reason, SandglassError } from '@sandglass/contract'
import type { Logger } from '../../log.ts'
import { deleteSession, findSession } from '../../store/sessions.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import { getSession } from '../get.ts'
import { release } from './bring-up.ts'
import { discardOrRemember } from './leftovers.ts'
import { transition } from './transition.ts'

export async function terminateSession(context: SessionContext, ref: string, log: Logger): Promise<SessionRow> {
  const { id } = await getSession(context, ref)
  // A start under way ends at once instead of being waited for.
  context.starting.get(id)?.abort(new Error('the session was ended while it started'))
  return context.mutex.run(id, () => end(context, id, 'terminate', 'requested', log))
}

/** Also removes the row and everything that hangs on it. */
export async function purgeSession(context: SessionContext, ref: string, log: Logger): Promise<SessionRow> {
  const row = await terminateSession(context, ref, log)
  // The row is all that tells of a machine that is still there.
  if (context.leftovers.has(row.id)) return row
  await context.ballast.whenFull(() => deleteSession(context.store, row.id))
  log.info({ sessionId: row.id }, 'session purged')
  return row
}

/**
 * The caller has the turn. The final state is stored first: if the daemon dies before the machine is gone, reconcile finds a
 * machine whose session has ended and finishes the work.
 */
export async function end(
  context: SessionContext,
  id: string,
  event: 'terminate' | 'expire',
  reason: Reason,
  log: Logger,
): Promise<SessionRow> {
  const live = context.live.get(id)
  const row = live?.row ?? (await findSession(context.store, { id }))
  if (!row) throw new SandglassError('SESSION_NOT_FOUND', { id })
  const left = context.leftovers.get(id)
  if (FINAL_STATES.includes(row.status) && !left) return row
  const ended = left ? row : await transition(context, row, event, { reason }, log)
  if (live) release(context, live)
  const error_message = await discardOrRemember(context, id, left ?? { backend: row.backend, machine: live?.machine }, log)
  return { ...ended, error_message }
}
