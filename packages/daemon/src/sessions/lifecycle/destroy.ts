// Ends a session for good: DELETE, terminate, and the end of its lease. Twice is the same as once.
import { FINAL_STATES, type Reason, SandglassError } from '@sandglass/contract'
import type { Logger } from '../../log.ts'
import { deleteSession, findSession } from '../../store/sessions.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { World } from '../context.ts'
import { getSession } from '../get.ts'
import { release } from './bring-up.ts'
import { discardOrRemember } from './leftovers.ts'
import { transition } from './transition.ts'

export async function terminateSession(world: World, ref: string, log: Logger): Promise<SessionRow> {
  const { id } = await getSession(world, ref)
  // A start under way ends at once instead of being waited for.
  world.starting.get(id)?.abort(new Error('the session was ended while it started'))
  return world.mutex.run(id, () => end(world, id, 'terminate', 'requested', log))
}

/** Also removes the row and everything that hangs on it. */
export async function purgeSession(world: World, ref: string, log: Logger): Promise<SessionRow> {
  const row = await terminateSession(world, ref, log)
  // The row is all that tells of a machine that is still there.
  if (world.leftovers.has(row.id)) return row
  await world.ballast.whenFull(() => deleteSession(world.store, row.id))
  log.info({ sessionId: row.id }, 'session purged')
  return row
}

/**
 * The caller has the turn. The final state is stored first: if the daemon dies before the machine is gone, reconcile finds a
 * machine whose session has ended and finishes the work.
 */
export async function end(
  world: World,
  id: string,
  event: 'terminate' | 'expire',
  reason: Reason,
  log: Logger,
): Promise<SessionRow> {
  const live = world.live.get(id)
  const row = live?.row ?? (await findSession(world.store, { id }))
  if (!row) throw new SandglassError('SESSION_NOT_FOUND', { id })
  const left = world.leftovers.get(id)
  if (FINAL_STATES.includes(row.status) && !left) return row
  const ended = left ? row : await transition(world, row, event, { reason }, log)
  if (live) release(world, live)
  const error_message = await discardOrRemember(world, id, left ?? { backend: row.backend, machine: live?.machine }, log)
  return { ...ended, error_message }
}
