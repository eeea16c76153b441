// PUT …/policies: other policies or another mode for a session, at once if it runs.
import { isFiltered, LIVE_STATES, SandglassError, type SessionPolicies, STARTABLE_STATES } from '@sandglass/contract'
import type { Logger } from '../../log.ts'
import type { SessionContext } from '../context.ts'
import { getSession } from '../live.ts'
import { patchRecord, type SessionRecord } from '../session-record.ts'
import { sendAgain } from './join-egress.ts'
import { policySettings } from './network-settings.ts'

/** Stored first: if the egress process cannot be reached, it gets the change with the next connection, and the caller gets EGRESS_UNAVAILABLE. */
export async function setPolicies(
  context: SessionContext,
  ref: string,
  request: SessionPolicies,
  log: Logger,
): Promise<SessionRecord> {
  const { id } = await getSession(context, ref)
  return await context.mutex.run(id, async () => {
    const record = await getSession(context, id)
    refuseState(record)
    const settings = await policySettings(context, record, request)
    await patchRecord(context.store, id, settings)
    log.info({ sessionId: id, policies: settings.policies, mode: settings.policy_mode }, 'policies of a session changed')
    const live = context.live.get(id)
    if (live === undefined) return { ...record, ...settings }
    live.record = { ...live.record, ...settings }
    await sendAgain(context, live)
    return live.record
  })
}

function refuseState({ id, name, status, network }: SessionRecord): void {
  const isLive = LIVE_STATES.includes(status)
  if (!isLive && !STARTABLE_STATES.includes(status))
    throw new SandglassError('WRONG_STATE', { id, name, state: status, event: 'change the policies of' })
  // The machine of a session without egress has no endpoint that could be used.
  if (isLive && !isFiltered(network)) throw new SandglassError('NETWORK_FIXED', { name, network })
}
