// POST …/start: a stopped or failed session runs again, with the files it had.
import type { Logger } from '../log.ts'
import type { SessionRow } from '../store/tables.ts'
import { bringUp, isRefusal, startFailure } from './bring-up.ts'
import { getSession } from './get.ts'
import { transition } from './transition.ts'
import type { World } from './world.ts'

export async function startSession(world: World, ref: string, log: Logger): Promise<SessionRow> {
  const { id } = await getSession(world, ref)
  return world.turns.take(id, async () => {
    const row = await transition(world, await getSession(world, id), 'start', { reason: 'requested' }, log)
    try {
      return (await bringUp(world, row, log)).row
    } catch (error) {
      const failure = startFailure(id, error)
      await transition(world, row, 'fail', { reason: 'start_failed', error_message: failure.detail.why }, log)
      throw isRefusal(error) ? error : failure
    }
  })
}
