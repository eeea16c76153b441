// Adds to the error of a call that lost its sandbox which session it was and why the sandbox ended. The call fails first; the reason is
// known when the watch of the machine, or the verb that ends the session, has stored it.
import { SandglassError } from '@sandglass/contract'
import type { SessionContext } from '../context.ts'
import { findRecord, type SessionRecord } from '../session-record.ts'

/** Longer than the frequent checks of watch-machine.ts take. A sandbox that still runs after that is reported as lost. */
const PATIENCE_MS = 3000

/** Any other error is returned as it is. `ref` is the id or name in the call. */
export async function explainLoss(context: SessionContext, ref: string, error: unknown): Promise<unknown> {
  if (!(error instanceof SandglassError && error.is('RUNNER_LOST'))) return error
  const record = await settledRecord(context, ref, AbortSignal.any([context.closing, AbortSignal.timeout(PATIENCE_MS)]))
  if (!record) return error
  const { id, name, status, reason, error_message } = record
  return new SandglassError('RUNNER_LOST', { id, name, state: status, reason, why: error_message }, { cause: error.cause })
}

/** Waits for a session that is ending; when the signal aborts, resolves with it as it is. */
async function settledRecord(context: SessionContext, ref: string, signal: AbortSignal): Promise<SessionRecord | null> {
  for (;;) {
    const changed = context.changes.next(signal)
    const live = context.live.get(ref)
    const record = live?.record ?? (await findRecord(context.store, ref)) ?? null
    const isEnding = record?.status === 'stopping' || (record?.status === 'running' && live !== undefined)
    if (!isEnding || signal.aborted) return record
    await changed
  }
}
