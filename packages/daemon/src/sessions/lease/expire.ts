// Acts on sessions whose ttl, hard end or retention is over, and removes ended ones. Every query is answered by an index.
import { LIMITS, type Reason } from '@sandglass/contract'
import { forEachAtOnce } from '../../lib/for-each-at-once.ts'
import { pruneEvents } from '../../store/events.ts'
import { pruneIdempotency } from '../../store/idempotency.ts'
import { deleteSession, dueSessions, nextExpiry, retiredSessions } from '../../store/sessions.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { World } from '../context.ts'
import { getSession } from '../get.ts'
import { end } from '../lifecycle/destroy.ts'
import { discardLeftovers, discardOrRemember } from '../lifecycle/leftovers.ts'
import { freeze } from '../lifecycle/pause.ts'
import { stop } from '../lifecycle/stop.ts'
import { isUnseen } from '../lifecycle/unseen.ts'
import { isInUse } from './in-use.ts'
import { flushLeases, hardEnd } from './lease.ts'

const BATCH = 200
const AT_ONCE = 8

/** One sweep; answers with the next end. A failure is logged and the sweep goes on: the next one tries again. */
export async function sweep(world: World): Promise<number | null> {
  for (const task of [expireDue, retire, discardLeftovers, prune, restoreBallast]) {
    try {
      await task(world)
    } catch (err) {
      world.log.error({ err, task: task.name }, 'sweep failed; the next one tries again')
    }
  }
  const next = await nextExpiry(world.store)
  // What is still due failed just now, or is held: it is not tried again at once.
  return next === null ? null : Math.max(next, world.now() + 1000)
}

export async function expireDue(world: World): Promise<void> {
  await flushLeases(world)
  const due = await dueSessions(world.store, world.now(), BATCH)
  await forEachAtOnce(due, AT_ONCE, async ({ id }) => {
    try {
      await expireOne(world, id)
    } catch (err) {
      // A machine that cannot be stopped or paused must not keep the other sessions from expiring.
      world.log.error({ err, sessionId: id }, 'session could not expire; the next sweep tries again')
    }
  })
  await flushLeases(world)
}

async function expireOne(world: World, id: string): Promise<void> {
  await world.mutex.run(id, async () => {
    const row = await getSession(world, id)
    const now = world.now()
    if (row.expires_at === null || row.expires_at > now) return
    if (isPastHardEnd(row, now)) return expireWith(world, row, 'end', 'hard_timeout')
    if (row.status === 'stopped') return expireWith(world, row, 'end', 'retention_ended')
    const live = world.live.get(id)
    if (live && (await isInUse(world, live))) return
    await expireWith(world, row, row.on_expiry, 'idle_ttl')
  })
}

async function expireWith(world: World, row: SessionRow, what: SessionRow['on_expiry'], reason: Reason): Promise<void> {
  if (what === 'end') await end(world, row.id, 'expire', reason, world.log)
  else if (what === 'pause') await freeze(world, row, 'pause', reason, world.log)
  else await stopUnlessUnseen(world, row, reason)
}

/** A machine that its backend cannot tell of now would count as failed. It is stopped once the backend answers. */
async function stopUnlessUnseen(world: World, row: SessionRow, reason: Reason): Promise<void> {
  const live = world.live.get(row.id)
  if (live === undefined || !isUnseen(live)) await stop(world, row, { reason }, world.log)
}

function isPastHardEnd(row: SessionRow, now: number): boolean {
  const end = hardEnd(row)
  return end !== null && end <= now
}

/** A failed session still has its files; an ended one has nothing but its row. */
async function retire(world: World): Promise<void> {
  for (const row of await retiredSessions(world.store, world.now(), BATCH)) {
    await world.mutex.run(row.id, async () => {
      const left = world.leftovers.get(row.id) ?? { backend: row.backend, machine: undefined }
      if ((await discardOrRemember(world, row.id, left, world.log)) === null) await deleteSession(world.store, row.id)
    })
  }
}

async function restoreBallast({ ballast }: World): Promise<void> {
  ballast.restore()
}

async function prune(world: World): Promise<void> {
  await pruneIdempotency(world.store, world.now())
  await pruneEvents(world.store, LIMITS.events_kept.max)
}
