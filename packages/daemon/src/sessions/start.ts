// POST …/start: a stopped or failed session runs again, with the files it had.
import { nextState } from '@sandglass/contract'
import type { Logger } from '../log.ts'
import type { SessionRow } from '../store/tables.ts'
import { bringUp, isRefusal, startFailure } from './bring-up.ts'
import { getSession } from './get.ts'
import { withRoom } from './room.ts'
import { transition } from './transition.ts'
import type { World } from './world.ts'

export async function startSession(world: World, ref: string, log: Logger): Promise<SessionRow> {
  const { id } = await getSession(world, ref)
  return world.turns.take(id, async () => {
    const found = await getSession(world, id)
    nextState(id, found.status, 'start', found.name)
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
