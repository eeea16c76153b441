// Ends a session for good: DELETE, terminate, and the end of its lease. Twice is the same as once.
import { FINAL_STATES, type Reason } from '@sandglass/contract'
import type { Logger } from '../../log.ts'
import { deleteSession } from '../../store/sessions.ts'
import type { SessionContext } from '../context.ts'
import { getSession } from '../live.ts'
import { removeNetworkLog } from '../network/join-egress.ts'
import type { SessionRecord } from '../session-record.ts'
import { release } from './bring-up.ts'
import { discardOrRemember } from './leftovers.ts'
import { transition } from './transition.ts'

export async function terminateSession(context: SessionContext, ref: string, log: Logger): Promise<SessionRecord> {
  const { id } = await getSession(context, ref)
  // Abort a start under way instead of waiting for it.
  context.starting.get(id)?.abort(new Error('the session was ended while it started'))
  return context.mutex.run(id, () => end(context, id, 'terminate', 'requested', log))
}

/** Also removes the record, its events and its network log. */
export async function purgeSession(context: SessionContext, ref: string, log: Logger): Promise<SessionRecord> {
  const record = await terminateSession(context, ref, log)
  // Only the record says that there still is a machine.
  if (context.leftovers.has(record.id)) return record
  await context.reservedSpace.useFor(() => deleteSession(context.store, record.id))
  await removeNetworkLog(context, record.id)
  log.info({ sessionId: record.id }, 'session purged')
  return record
}

/**
 * The caller holds the session's mutex. The final state is stored first: if the daemon dies before the machine is gone, reconcile finds a
 * machine whose session has ended and removes it.
 */
export async function end(
  context: SessionContext,
  id: string,
  event: 'terminate' | 'expire',
  reason: Reason,
  log: Logger,
): Promise<SessionRecord> {
  const live = context.live.get(id)
  const record = await getSession(context, id)
  const leftover = context.leftovers.get(id)
  if (FINAL_STATES.includes(record.status) && !leftover) return record
  const ended = leftover ? record : await transition(context, record, event, { reason }, log)
  if (live) release(context, live)
  const machine = leftover ?? { backend: record.backend, machine: live?.machine }
  return { ...ended, error_message: await discardOrRemember(context, id, machine, log) }
}
