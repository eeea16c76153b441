// Machines of ended sessions that could not be removed. Each is tried again with every sweep, and its row says so until it is gone.
import type { Machine } from '../../backends/backend.ts'
import type { Logger } from '../../log.ts'
import { patchSession } from '../../store/sessions.ts'
import type { SessionContext } from '../context.ts'
import { backendOf } from '../placement/choose-backend.ts'

/** `machine` is the one that ran when the session ended, if it is known. */
export type Leftover = { backend: string; machine: Machine | undefined }

/** Null when all is gone; else what the row says now. The session has ended either way. */
export async function discardOrRemember(
  context: SessionContext,
  id: string,
  left: Leftover,
  log: Logger,
): Promise<string | null> {
  try {
    await discard(context, id, left)
    if (context.leftovers.delete(id)) await tell(context, id, null)
    return null
  } catch (err) {
    log.error({ sessionId: id, err }, 'machine could not be removed; it is tried again')
    context.leftovers.set(id, left)
    const message = `its machine could not be removed, which is tried again: ${(err as Error).message}`
    await tell(context, id, message)
    return message
  }
}

export async function discardLeftovers(context: SessionContext): Promise<void> {
  for (const [id, left] of context.leftovers) await context.mutex.run(id, () => discardOrRemember(context, id, left, context.log))
}

/** SECURITY: a backend whose records were lost finds nothing to remove. What was seen running is looked at once more. */
async function discard(context: SessionContext, id: string, { backend, machine }: Leftover): Promise<void> {
  await backendOf(context, backend).discard(id)
  if (await machine?.isRunning()) throw new Error('it still runs, and the backend has no record of it')
}

const tell = (context: SessionContext, id: string, error_message: string | null) =>
  context.ballast.whenFull(() => patchSession(context.store, id, { error_message }))
