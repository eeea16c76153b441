// POST …/stop, and the expiry of a session that stops then: every process ends, files stay.
import type { Logger } from '../../log.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import { getSession } from '../get.ts'
import type { LiveSession } from '../live.ts'
import { release } from './bring-up.ts'
import { type Change, transition } from './transition.ts'

/** How long programs have to end by themselves. */
const GRACE_MS = 1000

export async function stopSession(context: SessionContext, ref: string, log: Logger): Promise<SessionRow> {
  const { id } = await getSession(context, ref)
  return context.mutex.run(id, async () => stop(context, await getSession(context, id), { reason: 'requested' }, log))
}

/** The caller holds the session's mutex. Programs of a session that is not asked to end are killed at once. */
export async function stop(
  context: SessionContext,
  found: SessionRow,
  change: Change,
  log: Logger,
  { isAsked = true }: { isAsked?: boolean } = {},
): Promise<SessionRow> {
  const live = context.live.get(found.id)
  const row = await transition(context, found, 'stop', change, log)
  try {
    if (live && isAsked && found.status === 'running') await askToEnd(live)
    if (live) release(context, live)
    await live?.machine.stop()
  } catch (error) {
    await transition(context, row, 'fail', { reason: 'machine_missing', error_message: (error as Error).message }, log)
    throw error
  }
  return await transition(context, row, 'halt', change, log)
}

/** The runner passes SIGTERM on, and exits after the grace. One that does not answer is ended all the same. */
async function askToEnd(live: LiveSession): Promise<void> {
  const lost = new Promise<void>(resolve => live.link.onLost(() => resolve()))
  try {
    await live.link.request('shutdown', { grace_ms: GRACE_MS }, { signal: AbortSignal.timeout(GRACE_MS) })
    await Promise.race([lost, new Promise(resolve => setTimeout(resolve, GRACE_MS + 500).unref())])
  } catch {
    return // the machine's own stop follows and does not need the runner
  }
}
