// POST …/renew: the ttl starts again from now, with another length if one is given; for a stopped session its retention.
import { EXPIRABLE_STATES, SandglassError } from '@sandglass/contract'
import type { SessionContext } from '../context.ts'
import { getSession } from '../live.ts'
import { patchRecord, type SessionRecord } from '../session-record.ts'
import { dueAt } from './lease.ts'
import { refuseEndless } from './lifetime.ts'

export async function renewSession(
  context: SessionContext,
  ref: string,
  ttlSeconds: number | null | undefined,
): Promise<SessionRecord> {
  const { id } = await getSession(context, ref)
  return context.mutex.run(id, async () => {
    const record = await getSession(context, id)
    if (!EXPIRABLE_STATES.includes(record.status))
      throw new SandglassError('WRONG_STATE', { id, name: record.name, state: record.status, event: 'renew' })
    const now = context.now()
    const ttl_seconds = ttlSeconds === undefined ? record.ttl_seconds : ttlSeconds
    refuseEndless(record.mode, ttl_seconds)
    const expires_at = dueAt(context, { ...record, ttl_seconds }, record.status, now)
    const patch = { ttl_seconds, last_activity_at: now, expires_at }
    await patchRecord(context.store, id, patch)
    const renewed = { ...record, ...patch }
    const live = context.live.get(id)
    if (live) live.record = renewed
    if (expires_at !== null) context.reaper.wakeIn(expires_at - now)
    return renewed
  })
}
