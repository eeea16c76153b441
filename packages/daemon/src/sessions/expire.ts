// Ends sessions whose lease or hard end has come, and removes what is past its retention. Every question is answered by an index.
import { LIMITS } from '@sandglass/contract'
import { pruneEvents } from '../store/events.ts'
import { pruneIdempotency } from '../store/idempotency.ts'
import { deleteSession, dueSessions, nextExpiry, retiredSessions } from '../store/sessions.ts'
import type { SessionRow } from '../store/tables.ts'
import { end } from './destroy.ts'
import { forEachAtOnce } from './for-each-at-once.ts'
import { getSession } from './get.ts'
import { flushLeases, hardEnd, touch } from './lease.ts'
import { discardLeftovers, discardOrRemember } from './leftovers.ts'
import type { World } from './world.ts'

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
  await forEachAtOnce(due, AT_ONCE, row => expireOne(world, row.id))
  await flushLeases(world)
}

async function expireOne(world: World, id: string): Promise<void> {
  await world.turns.take(id, async () => {
    const row = await getSession(world, id)
    const now = world.now()
    if (row.expires_at === null || row.expires_at > now) return
    const isHard = isPastHardEnd(row, now)
    const live = world.live.get(id)
    // A command or stream under way holds the lease, though never the hard end.
    if (live && live.holds > 0 && !isHard) return touch(world, live)
    await end(world, id, 'expire', isHard ? 'hard_timeout' : 'idle_ttl', world.log)
  })
}

function isPastHardEnd(row: SessionRow, now: number): boolean {
  const end = hardEnd(row)
  return end !== null && end <= now
}

/** A failed session still has its files; an ended one has nothing but its row. */
async function retire(world: World): Promise<void> {
  for (const row of await retiredSessions(world.store, world.now(), BATCH)) {
    await world.turns.take(row.id, async () => {
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
