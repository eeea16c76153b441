// Ends a session for good: DELETE, terminate, and the end of its lease. Twice is the same as once.
import { FINAL_STATES, type Reason, SandglassError } from '@sandglass/contract'
import type { Logger } from '../log.ts'
import { deleteSession, findSession } from '../store/sessions.ts'
import type { SessionRow } from '../store/tables.ts'
import { release } from './bring-up.ts'
import { backendOf } from './choose-backend.ts'
import { getSession } from './get.ts'
import { transition } from './transition.ts'
import type { World } from './world.ts'

export async function terminateSession(world: World, ref: string, log: Logger): Promise<SessionRow> {
  const { id } = await getSession(world, ref)
  // A start under way ends at once instead of being waited for.
  world.starting.get(id)?.abort(new Error('the session was ended while it started'))
  return world.turns.take(id, () => end(world, id, 'terminate', 'requested', log))
}

/** Also removes the row and everything that hangs on it. */
export async function purgeSession(world: World, ref: string, log: Logger): Promise<SessionRow> {
  const row = await terminateSession(world, ref, log)
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
  if (FINAL_STATES.includes(row.status)) return row
  const ended = await transition(world, row, event, { reason }, log)
  if (live) release(world, live)
  await discardMachine(world, ended, log)
  return ended
}

/** What cannot be removed now is tried again by the reaper; the session has ended either way. */
async function discardMachine(world: World, row: SessionRow, log: Logger): Promise<void> {
  try {
    await backendOf(world, row.backend).discard(row.id)
  } catch (err) {
    log.error({ sessionId: row.id, err }, 'machine could not be removed; it is tried again')
    world.leftovers.set(row.id, row.backend)
  }
}
