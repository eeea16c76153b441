// Sessions join the egress process when their machine runs, leave it when the machine ends, and are sent again when something of them changes.
//
// The mutex of a session's egress orders what is sent: whoever sends last has read last. A session is live before it joins, so that a change of
// its policies either finds it among the live ones or is read by the join.
import { isFiltered } from '@sandglass/contract'
import type { Control } from '../../egress/control.ts'
import { controlSocket, loggedSessions, makeLogFolder, removeLogFolder } from '../../egress/folders.ts'
import { openRelay } from '../../egress/relay.ts'
import { unavailable } from '../../egress/supervisor.ts'
import { forEachConcurrently } from '../../lib/for-each-concurrently.ts'
import { withDeadline } from '../../lib/with-deadline.ts'
import { findSession } from '../../store/sessions.ts'
import type { SessionContext } from '../context.ts'
import type { LiveSession } from '../live.ts'
import { patchRecord } from '../session-record.ts'
import { egressSession } from './egress-session.ts'
import { warningsOf } from './warnings.ts'

const AT_ONCE = 32
/** How long a start waits. The egress process itself waits 5 seconds for a runner, and then gives the reason. */
const JOIN_MS = 6000

/** True if the egress process has to know the session. */
export const usesEgress = ({ record }: Pick<LiveSession, 'record'>): boolean => isFiltered(record.network)

/** Resolves when the connections of the session are carried. Throws EGRESS_UNAVAILABLE. */
export async function joinEgress(context: SessionContext, live: LiveSession): Promise<void> {
  const joined = context.egress.mutex.run(live.record.id, () => send(context, live))
  await withDeadline(joined, JOIN_MS).catch(unavailable)
}

/** SECURITY: not awaited by those who end a session. A process that does not answer loses the session when it is connected again. */
export function leaveEgress(context: SessionContext, live: LiveSession): void {
  if (!usesEgress(live)) return
  const { id } = live.record
  context.egress.relays.get(id)?.close()
  context.egress.relays.delete(id)
  context.egress.mutex
    .run(id, () => context.egress.supervisor.removeSession(id))
    .catch(err => context.log.warn({ err, sessionId: id }, 'session could not be removed from the egress process'))
}

/** Sends the live sessions that match again, for example those of a changed policy. Failures are logged: the next connection sends everything. */
export async function updateEgress(context: SessionContext, matches: (live: LiveSession) => boolean): Promise<void> {
  const changed = context.live.all().filter(live => usesEgress(live) && matches(live))
  await forEachConcurrently(changed, AT_ONCE, async live => {
    try {
      await sendAgain(context, live)
    } catch (err) {
      context.log.warn({ err, sessionId: live.record.id }, 'changed session could not be sent to the egress process')
    }
  })
}

/** Throws EGRESS_UNAVAILABLE. */
export async function sendAgain(context: SessionContext, live: LiveSession): Promise<void> {
  await context.egress.mutex.run(live.record.id, async () => {
    await storeWarnings(context, live)
    await send(context, live)
  })
}

/** Called after each connection to the egress process: it forgets sessions that have ended, and learns of all that run. */
export async function syncEgress(context: SessionContext, control: Control): Promise<void> {
  const { sessions } = await control.request('list_sessions', {})
  const unknown = sessions.filter(({ id }) => context.live.get(id) === undefined && !context.starting.has(id))
  for (const { id } of unknown) await control.request('remove_session', { session: id })
  await updateEgress(context, () => true)
}

/** Removes the network log of a session whose row is gone. */
export async function removeNetworkLog(context: SessionContext, id: string): Promise<void> {
  await context.egress.mutex.run(id, async () => {
    try {
      await removeLogFolder(context.dataDir, id)
    } catch (err) {
      context.log.warn({ err, sessionId: id }, 'network log could not be removed')
    }
  })
}

/** Removes network logs that a daemon left when it died between the removal of a row and that of its log. */
export async function removeOrphanedLogs(context: SessionContext): Promise<void> {
  for (const id of await loggedSessions(context.dataDir))
    if ((await findSession(context.store, { id })) === undefined) await removeNetworkLog(context, id)
}

/** The caller holds the mutex of the session's egress. */
async function send(context: SessionContext, live: LiveSession): Promise<void> {
  const { id } = live.record
  if (context.live.get(id) !== live) return
  await makeLogFolder(context.dataDir, id)
  const session = await egressSession(context, live)
  if (session.endpoint.kind === 'relay') {
    await context.egress.supervisor.ensure()
    relay(context, live)
  }
  await context.egress.supervisor.putSession(session)
}

function relay(context: SessionContext, live: LiveSession): void {
  const { id } = live.record
  if (context.egress.relays.has(id)) return
  const open = async (signal: AbortSignal) => (await live.link.stream('egress', {}, { signal })).raw()
  context.egress.relays.set(id, openRelay({ session: id, socketPath: controlSocket(context.dataDir), open, log: context.log }))
}

async function storeWarnings(context: SessionContext, live: LiveSession): Promise<void> {
  const warnings = await warningsOf(context, live.record).catch(() => live.record.warnings) // the sender reports what is wrong
  if (JSON.stringify(warnings) === JSON.stringify(live.record.warnings)) return
  live.record = { ...live.record, warnings }
  await patchRecord(context.store, live.record.id, { warnings })
}
