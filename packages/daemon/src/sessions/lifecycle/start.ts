// POST …/start: a stopped or failed session runs again, with the files it had.
import { nextState, SESSION_LIFECYCLE } from '@sandglass/contract'
import type { Logger } from '../../log.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import { getSession } from '../get.ts'
import { withRoom } from '../placement/admission.ts'
import { backendOf } from '../placement/choose-backend.ts'
import { bringUp, isRefusal, startFailure } from './bring-up.ts'
import { prepareImage } from './prepare-image.ts'
import { transition } from './transition.ts'

/** The signal ends a start whose image is not ready yet: nothing has changed by then. */
export async function startSession(context: SessionContext, ref: string, wanted: AbortSignal, log: Logger): Promise<SessionRow> {
  const asked = await getSession(context, ref)
  // One that is being stopped waits for its turn, and one that cannot start is refused then.
  if ('start' in SESSION_LIFECYCLE[asked.status])
    await prepareImage(context, backendOf(context, asked.backend), asked, AbortSignal.any([wanted, context.closing]))
  return context.mutex.run(asked.id, async () => {
    const found = await getSession(context, asked.id)
    nextState(found.id, found.status, 'start', found.name)
    return withRoom(context, found, () => startAgain(context, found, log))
  })
}

async function startAgain(context: SessionContext, found: SessionRow, log: Logger): Promise<SessionRow> {
  const row = await transition(context, found, 'start', { reason: 'requested' }, log)
  try {
    return (await bringUp(context, row, log)).row
  } catch (error) {
    const failure = startFailure(row, error)
    await transition(context, row, 'fail', { reason: 'start_failed', error_message: failure.detail.why }, log)
    throw isRefusal(error) ? error : failure
  }
}
