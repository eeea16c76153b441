// Tells of a call that lost its sandbox whose it was, and why it ended. The call breaks off first; the reason is known when the watch of the
// machine, or the verb that ends the session, has stored it.
import { SandglassError, SESSION_ID } from '@sandglass/contract'
import { findSession } from '../../store/sessions.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'

/** As long as the watch looks often. A sandbox that still runs after that is told of as lost. */
const PATIENCE_MS = 3000

/** Any other error is given back as it is. `ref` is what the call named its session with. */
export async function explainLoss(context: SessionContext, ref: string, error: unknown): Promise<unknown> {
  if (!(error instanceof SandglassError && error.is('RUNNER_LOST'))) return error
  const row = await settledRow(context, ref, AbortSignal.any([context.closing, AbortSignal.timeout(PATIENCE_MS)]))
  if (!row) return error
  const { id, name, status, reason, error_message } = row
  return new SandglassError('RUNNER_LOST', { id, name, state: status, reason, why: error_message }, { cause: error.cause })
}

async function settledRow(context: SessionContext, ref: string, signal: AbortSignal): Promise<SessionRow | null> {
  for (;;) {
    const changed = context.changes.next(signal)
    const live = context.live.get(ref)
    const row = live?.row ?? (await findSession(context.store, SESSION_ID.test(ref) ? { id: ref } : { name: ref })) ?? null
    const isOpen = row?.status === 'stopping' || (row?.status === 'running' && live !== undefined)
    if (!isOpen || signal.aborted) return row
    await changed
  }
}
