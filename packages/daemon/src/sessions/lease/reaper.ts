// The reaper's sweep: expires sessions whose ttl, hard end or retention is over, and removes ended ones. Every query uses an index.
import { LIMITS, type Reason } from '@sandglass/contract'
import { forEachConcurrently } from '../../lib/for-each-concurrently.ts'
import { Periodic } from '../../lib/periodic.ts'
import { pruneApprovals } from '../../store/approvals.ts'
import { pruneEvents } from '../../store/events.ts'
import { pruneIdempotency } from '../../store/idempotency.ts'
import { deleteSession, dueSessions, nextExpiry } from '../../store/sessions.ts'
import type { SessionContext } from '../context.ts'
import { end } from '../lifecycle/destroy.ts'
import { discardLeftovers, discardOrRemember } from '../lifecycle/leftovers.ts'
import { setFrozen } from '../lifecycle/pause.ts'
import { stop } from '../lifecycle/stop.ts'
import { isUnreported } from '../lifecycle/unreported.ts'
import { getSession } from '../live.ts'
import { removeNetworkLog } from '../network/join-egress.ts'
import { retiredRecords, type SessionRecord } from '../session-record.ts'
import { renewIfInUse } from './in-use.ts'
import { flushLeases, hardEnd } from './lease.ts'

const BATCH = 200
const AT_ONCE = 8
const SWEEP_EVERY_MS = 30_000
/** A session that is still due after a sweep failed to expire, or is in use: it is not tried again at once. */
const RETRY_MS = 1000

/** Sweeps when the next session expires, and every 30 seconds in any case. Not started yet. */
export function createReaper(context: () => SessionContext): Periodic {
  return new Periodic({
    work: () => sweep(context()),
    onError: err => {
      context().log.error({ err }, 'sweep failed; retrying')
      return RETRY_MS
    },
    maxMs: SWEEP_EVERY_MS,
  })
}

/** Returns the milliseconds until the next session expires. One task that fails does not keep the others from running. */
export async function sweep(context: SessionContext): Promise<number> {
  for (const task of [expireDue, removeRetired, discardLeftovers, prune, restoreReservedSpace]) {
    try {
      await task(context)
    } catch (err) {
      context.log.error({ err, task: task.name }, 'task of a sweep failed; the next sweep tries again')
    }
  }
  const next = await nextExpiry(context.store)
  return next === null ? SWEEP_EVERY_MS : Math.max(next - context.now(), RETRY_MS)
}

export async function expireDue(context: SessionContext): Promise<void> {
  await flushLeases(context)
  const due = await dueSessions(context.store, context.now(), BATCH)
  await forEachConcurrently(due, AT_ONCE, async ({ id }) => {
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
    const record = await getSession(context, id)
    const now = context.now()
    if (record.expires_at === null || record.expires_at > now) return
    const lastMoment = hardEnd(record)
    if (lastMoment !== null && lastMoment <= now) return expireWith(context, record, 'end', 'hard_timeout')
    if (record.status === 'stopped') return expireWith(context, record, 'end', 'retention_ended')
    const live = context.live.get(id)
    if (live && (await renewIfInUse(context, live))) return
    await expireWith(context, record, record.on_expiry, 'idle_ttl')
  })
}

async function expireWith(
  context: SessionContext,
  record: SessionRecord,
  action: SessionRecord['on_expiry'],
  reason: Reason,
): Promise<void> {
  if (action === 'end') await end(context, record.id, 'expire', reason, context.log)
  else if (action === 'pause') await setFrozen(context, record, 'pause', { reason }, context.log)
  else if (!isUnreported(context.live.get(record.id))) await stop(context, record, { reason }, context.log)
  // else: the stop of a machine that its backend cannot report would fail the session. It is stopped once the backend answers.
}

/** Removes ended sessions after their retention. A failed one still has its files; any other has nothing but its record. */
async function removeRetired(context: SessionContext): Promise<void> {
  for (const record of await retiredRecords(context.store, context.now(), BATCH)) {
    await context.mutex.run(record.id, async () => {
      const leftover = context.leftovers.get(record.id) ?? { backend: record.backend, machine: undefined }
      if ((await discardOrRemember(context, record.id, leftover, context.log)) !== null) return
      await deleteSession(context.store, record.id)
      await removeNetworkLog(context, record.id)
    })
  }
}

async function restoreReservedSpace({ reservedSpace }: SessionContext): Promise<void> {
  reservedSpace.reserve()
}

async function prune(context: SessionContext): Promise<void> {
  await pruneIdempotency(context.store, context.now())
  await pruneEvents(context.store, LIMITS.events_kept.max)
  await pruneApprovals(context.store, LIMITS.approvals_kept.max)
}
