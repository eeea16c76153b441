// Acts on sessions whose ttl, hard end or retention is over, and removes ended ones. Every query is answered by an index.
import { LIMITS, type Reason } from '@sandglass/contract'
import { forEachAtOnce } from '../../lib/for-each-at-once.ts'
import { pruneEvents } from '../../store/events.ts'
import { pruneIdempotency } from '../../store/idempotency.ts'
import { deleteSession, dueSessions, nextExpiry, retiredSessions } from '../../store/sessions.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
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
export async function sweep(context: SessionContext): Promise<number | null> {
  for (const task of [expireDue, retire, discardLeftovers, prune, restoreBallast]) {
    try {
      await task(context)
    } catch (err) {
      context.log.error({ err, task: task.name }, 'sweep failed; the next one tries again')
    }
  }
  const next = await nextExpiry(context.store)
  // What is still due failed just now, or is held: it is not tried again at once.
  return next === null ? null : Math.max(next, context.now() + 1000)
}

export async function expireDue(context: SessionContext): Promise<void> {
  await flushLeases(context)
  const due = await dueSessions(context.store, context.now(), BATCH)
  await forEachAtOnce(due, AT_ONCE, async ({ id }) => {
    try {
      await expireOne(context, id)
    } catch (err) {
      // A machine that cannot be stopped or paused must not keep the other sessions from expiring.
      context.log.error({ err, sessionId: id }, 'session could not expire; the next sweep tries again')
    }
  })
  await flushLeases(context)
}

async function expireOne(context: SessionContext, id: string): Promise<void> {
  await context.mutex.run(id, async () => {
    const row = await getSession(context, id)
    const now = context.now()
    if (row.expires_at === null || row.expires_at > now) return
    if (isPastHardEnd(row, now)) return expireWith(context, row, 'end', 'hard_timeout')
    if (row.status === 'stopped') return expireWith(context, row, 'end', 'retention_ended')
    const live = context.live.get(id)
    if (live && (await isInUse(context, live))) return
    await expireWith(context, row, row.on_expiry, 'idle_ttl')
  })
}

async function expireWith(
  context: SessionContext,
  row: SessionRow,
  what: SessionRow['on_expiry'],
  reason: Reason,
): Promise<void> {
  if (what === 'end') await end(context, row.id, 'expire', reason, context.log)
  else if (what === 'pause') await freeze(context, row, 'pause', reason, context.log)
  else await stopUnlessUnseen(context, row, reason)
}

/** A machine that its backend cannot tell of now would count as failed. It is stopped once the backend answers. */
async function stopUnlessUnseen(context: SessionContext, row: SessionRow, reason: Reason): Promise<void> {
  const live = context.live.get(row.id)
  if (live === undefined || !isUnseen(live)) await stop(context, row, { reason }, context.log)
}

function isPastHardEnd(row: SessionRow, now: number): boolean {
  const end = hardEnd(row)
  return end !== null && end <= now
}

/** A failed session still has its files; an ended one has nothing but its row. */
async function retire(context: SessionContext): Promise<void> {
  for (const row of await retiredSessions(context.store, context.now(), BATCH)) {
    await context.mutex.run(row.id, async () => {
      const left = context.leftovers.get(row.id) ?? { backend: row.backend, machine: undefined }
      if ((await discardOrRemember(context, row.id, left, context.log)) === null) await deleteSession(context.store, row.id)
    })
  }
}

async function restoreBallast({ ballast }: SessionContext): Promise<void> {
  ballast.restore()
}

async function prune(context: SessionContext): Promise<void> {
  await pruneIdempotency(context.store, context.now())
  await pruneEvents(context.store, LIMITS.events_kept.max)
}
