// POST …/start: a stopped or failed session runs again, with the files it had.
import { nextState, SESSION_LIFECYCLE } from '@sandglass/contract'
import type { Logger } from '../../log.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { World } from '../context.ts'
import { getSession } from '../get.ts'
import { withRoom } from '../placement/admission.ts'
import { backendOf } from '../placement/choose-backend.ts'
import { bringUp, isRefusal, startFailure } from './bring-up.ts'
import { prepareImage } from './prepare-image.ts'
import { transition } from './transition.ts'

/** The signal ends a start whose image is not ready yet: nothing has changed by then. */
export async function startSession(world: World, ref: string, wanted: AbortSignal, log: Logger): Promise<SessionRow> {
  const asked = await getSession(world, ref)
  // One that is being stopped waits for its turn, and one that cannot start is refused then.
  if ('start' in SESSION_LIFECYCLE[asked.status])
    await prepareImage(world, backendOf(world, asked.backend), asked, AbortSignal.any([wanted, world.closing]))
  return world.mutex.run(asked.id, async () => {
    const found = await getSession(world, asked.id)
    nextState(found.id, found.status, 'start', found.name)
    return withRoom(world, found, () => startAgain(world, found, log))
  })
}

async function startAgain(world: World, found: SessionRow, log: Logger): Promise<SessionRow> {
  const row = await transition(world, found, 'start', { reason: 'requested' }, log)
  try {
    return (await bringUp(world, row, log)).row
  } catch (error) {
    const failure = startFailure(row, error)
    await transition(world, row, 'fail', { reason: 'start_failed', error_message: failure.detail.why }, log)
    throw isRefusal(error) ? error : failure
  }
}
