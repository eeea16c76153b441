// Renews an expired lease if the session is in use after all. The runner is asked about detached processes only now, when the lease is about
// to end: nothing about them has to be stored, and a restarted daemon finds them again.
import { z } from 'zod'
import type { SessionContext } from '../context.ts'
import { parsed } from '../inside/runner-shapes.ts'
import type { LiveSession } from '../live.ts'
import { dueAt, touch } from './lease.ts'

/** A runner that does not answer by then does not keep its session alive. */
const ANSWER_MS = 5000

const Activity = z.object({ detached: z.int().min(0), since_detached_ms: z.int().min(0).nullish() })

/**
 * Renews the lease and returns true if something uses the session: a command or stream under way, a detached process that
 * still runs, or one that ended less than a ttl ago. SECURITY: a sandbox can claim that forever; the hard end ends it.
 */
export async function renewIfInUse(context: SessionContext, live: LiveSession): Promise<boolean> {
  if (live.holds > 0) {
    touch(context, live)
    return true
  }
  const lastActivity = live.record.status === 'running' ? await lastDetached(context, live) : null
  if (lastActivity === null) return false
  const due = dueAt(context, live.record, live.record.status, lastActivity)
  if (due !== null && due <= context.now()) return false
  touch(context, live, lastActivity)
  return true
}

/** When a detached process last ran, null for never. */
async function lastDetached(context: SessionContext, live: LiveSession): Promise<number | null> {
  try {
    const { message } = await live.link.request('stats', {}, { signal: AbortSignal.timeout(ANSWER_MS) })
    const { detached, since_detached_ms } = parsed(live.record.id, Activity, message)
    if (detached > 0) return context.now()
    return since_detached_ms == null ? null : context.now() - since_detached_ms
  } catch (err) {
    context.log.debug({ err, sessionId: live.record.id }, 'runner did not report its detached processes')
    return null
  }
}
