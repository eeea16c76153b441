// POST …/renew: the ttl starts again from now, with another length if one is given; for a stopped session its retention.
import { SandglassError } from '@sandglass/contract'
import { patchSession } from '../../store/sessions.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import { getSession } from '../get.ts'
import { dueAt } from './lease.ts'
import { refuseEndless } from './lifetime.ts'

export async function renewSession(
  context: SessionContext,
  ref: string,
  ttlSeconds: number | null | undefined,
): Promise<SessionRow> {
  const { id } = await getSession(context, ref)
  return context.mutex.run(id, async () => {
    const row = await getSession(context, id)
    if (!['running', 'paused', 'stopped'].includes(row.status))
      throw new SandglassError('WRONG_STATE', { id, name: row.name, state: row.status, event: 'renew' })
    const now = context.now()
    const ttl_seconds = ttlSeconds === undefined ? row.ttl_seconds : ttlSeconds
    refuseEndless(row.mode, ttl_seconds)
    const renewed = { ...row, ttl_seconds, last_activity_at: now }
    renewed.expires_at = dueAt(context, renewed, row.status, now)
    await patchSession(context.store, id, {
      ttl_seconds,
      last_activity_at: now,
      expires_at: renewed.expires_at,
    })
    const live = context.live.get(id)
    if (live) live.row = renewed
    context.reaper.nudge(renewed.expires_at)
    return renewed
  })
}
