// Machines of ended sessions that could not be removed. Every sweep tries again, and the session's error_message says so until the machine is gone.
import type { Machine } from '../../backends/backend.ts'
import type { Logger } from '../../log.ts'
import type { SessionContext } from '../context.ts'
import { backendOf } from '../placement/choose-backend.ts'
import { patchRecord } from '../session-record.ts'

/** `machine` is the one that ran when the session ended, if it is known. */
export type Leftover = { backend: string; machine: Machine | undefined }

/** Returns null when the machine is gone, else the stored error message. The session has ended either way. */
export async function discardOrRemember(
  context: SessionContext,
  id: string,
  leftover: Leftover,
  log: Logger,
): Promise<string | null> {
  try {
    await discard(context, id, leftover)
    if (context.leftovers.delete(id)) await storeMessage(context, id, null)
    return null
  } catch (err) {
    log.error({ sessionId: id, err }, 'machine could not be removed; retrying')
    context.leftovers.set(id, leftover)
    const message = `its machine could not be removed, which is tried again: ${(err as Error).message}`
    await storeMessage(context, id, message)
    return message
  }
}

export async function discardLeftovers(context: SessionContext): Promise<void> {
  for (const [id, leftover] of context.leftovers)
    await context.mutex.run(id, () => discardOrRemember(context, id, leftover, context.log))
}

/** SECURITY: a backend that has lost its records finds nothing to remove. A machine that was seen running is checked once more. */
async function discard(context: SessionContext, id: string, { backend, machine }: Leftover): Promise<void> {
  await backendOf(context, backend).discard(id)
  if (await machine?.isRunning()) throw new Error('it still runs, and the backend has no record of it')
}

const storeMessage = (context: SessionContext, id: string, error_message: string | null) =>
  context.reservedSpace.useFor(() => patchRecord(context.store, id, { error_message }))
