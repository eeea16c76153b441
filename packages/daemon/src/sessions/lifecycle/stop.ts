// POST …/stop, and the expiry of a session that stops then: every process ends, files stay.
import type { Logger } from '../../log.ts'
import type { SessionContext } from '../context.ts'
import { getSession, type LiveSession } from '../live.ts'
import type { SessionRecord } from '../session-record.ts'
import { release } from './bring-up.ts'
import { type Change, transition } from './transition.ts'

/** How long programs have to end after SIGTERM. */
const GRACE_MS = 1000

export async function stopSession(context: SessionContext, ref: string, log: Logger): Promise<SessionRecord> {
  const { id } = await getSession(context, ref)
  return context.mutex.run(id, async () => stop(context, await getSession(context, id), { reason: 'requested' }, log))
}

/** The caller holds the session's mutex. If the stop is not graceful, programs get no SIGTERM first. */
export async function stop(
  context: SessionContext,
  found: SessionRecord,
  change: Change,
  log: Logger,
  { isGraceful = true }: { isGraceful?: boolean } = {},
): Promise<SessionRecord> {
  const live = context.live.get(found.id)
  const record = await transition(context, found, 'stop', change, log)
  try {
    if (live && isGraceful && found.status === 'running') await shutDownRunner(live)
    if (live) release(context, live)
    await live?.machine.stop()
  } catch (error) {
    await transition(context, record, 'fail', { reason: 'machine_missing', error_message: (error as Error).message }, log)
    throw error
  }
  return await transition(context, record, 'halt', change, log)
}

/** The runner passes SIGTERM on, and exits after the grace. */
async function shutDownRunner(live: LiveSession): Promise<void> {
  const lost = new Promise<void>(resolve => live.link.onLost(() => resolve()))
  try {
    await live.link.request('shutdown', { grace_ms: GRACE_MS }, { signal: AbortSignal.timeout(GRACE_MS) })
    await Promise.race([lost, new Promise(resolve => setTimeout(resolve, GRACE_MS + 500).unref())])
  } catch {
    return // the stop of the machine follows and does not need the runner
  }
}
