// Machines of ended sessions that could not be removed. Each is tried again with every sweep, and its row says so until it is gone.
import type { Machine } from '../../backends/backend.ts'
import type { Logger } from '../../log.ts'
import { patchSession } from '../../store/sessions.ts'
import type { World } from '../context.ts'
import { backendOf } from '../placement/choose-backend.ts'

/** `machine` is the one that ran when the session ended, if it is known. */
export type Leftover = { backend: string; machine: Machine | undefined }

/** Null when all is gone; else what the row says now. The session has ended either way. */
export async function discardOrRemember(world: World, id: string, left: Leftover, log: Logger): Promise<string | null> {
  try {
    await discard(world, id, left)
    if (world.leftovers.delete(id)) await tell(world, id, null)
    return null
  } catch (err) {
    log.error({ sessionId: id, err }, 'machine could not be removed; it is tried again')
    world.leftovers.set(id, left)
    const message = `its machine could not be removed, which is tried again: ${(err as Error).message}`
    await tell(world, id, message)
    return message
  }
}

export async function discardLeftovers(world: World): Promise<void> {
  for (const [id, left] of world.leftovers) await world.mutex.run(id, () => discardOrRemember(world, id, left, world.log))
}

/** SECURITY: a backend whose records were lost finds nothing to remove. What was seen running is looked at once more. */
async function discard(world: World, id: string, { backend, machine }: Leftover): Promise<void> {
  await backendOf(world, backend).discard(id)
  if (await machine?.isRunning()) throw new Error('it still runs, and the backend has no record of it')
}

const tell = (world: World, id: string, error_message: string | null) =>
  world.ballast.whenFull(() => patchSession(world.store, id, { error_message }))
