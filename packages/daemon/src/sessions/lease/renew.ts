// POST …/renew: the ttl starts again from now, with another length if one is given; for a stopped session its retention.
import { SandglassError } from '@sandglass/contract'
import { patchSession } from '../../store/sessions.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { World } from '../context.ts'
import { getSession } from '../get.ts'
import { dueAt } from './lease.ts'
import { refuseEndless } from './lifetime.ts'

export async function renewSession(world: World, ref: string, ttlSeconds: number | null | undefined): Promise<SessionRow> {
  const { id } = await getSession(world, ref)
  return world.mutex.run(id, async () => {
    const row = await getSession(world, id)
    if (!['running', 'paused', 'stopped'].includes(row.status))
      throw new SandglassError('WRONG_STATE', { id, name: row.name, state: row.status, event: 'renew' })
    const now = world.now()
    const ttl_seconds = ttlSeconds === undefined ? row.ttl_seconds : ttlSeconds
    refuseEndless(row.mode, ttl_seconds)
    const renewed = { ...row, ttl_seconds, last_activity_at: now }
    renewed.expires_at = dueAt(world, renewed, row.status, now)
    await patchSession(world.store, id, {
      ttl_seconds,
      last_activity_at: now,
      expires_at: renewed.expires_at,
    })
    const live = world.live.get(id)
    if (live) live.row = renewed
    world.reaper.nudge(renewed.expires_at)
    return renewed
  })
}
