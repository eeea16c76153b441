// The lease: each activity moves a session's end by its own ttl. A command, stream or detached process under way holds it;
// the hard end comes whatever runs. Activity is kept in memory and written at most once a second for all sessions together, so that
// a command causes no write of its own; a daemon that dies loses at most that second.

import { EXPIRABLE_STATES, FINAL_STATES, LIVE_STATES, type SessionState } from '@sandglass/contract'
import { writeLeases } from '../../store/sessions.ts'
import type { SessionContext } from '../context.ts'
import type { LiveSession } from '../live.ts'
import type { SessionRecord } from '../session-record.ts'

const WRITE_EVERY_MS = 1000

/**
 * How long an ended session is kept after its end: its record, and the files of a failed one that is not persistent. How long a session that
 * was only stopped is kept is the operator's `stopped_retention_seconds`.
 */
const ENDED_RETENTION_MS = 7 * 24 * 3600 * 1000

export class Leases {
  readonly #dirty = new Set<LiveSession>()
  #timer: NodeJS.Timeout | undefined
  #flush: () => void = () => undefined

  /** `flush` is called once a second while there is something to write. */
  onDue(flush: () => void): void {
    this.#flush = flush
  }

  mark(session: LiveSession): void {
    this.#dirty.add(session)
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#flush()
    }, WRITE_EVERY_MS)
  }

  take(): LiveSession[] {
    const sessions = [...this.#dirty]
    this.#dirty.clear()
    return sessions
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

/** Renews the lease from the last activity: now, or the moment given. */
export function touch(context: SessionContext, session: LiveSession, lastActivity = context.now()): void {
  const { record } = session
  record.last_activity_at = lastActivity
  record.expires_at = dueAt(context, record, record.status, lastActivity)
  context.leases.mark(session)
}

/** Holds the lease until the returned function is called. */
export function hold(context: SessionContext, session: LiveSession): () => void {
  session.holds++
  touch(context, session)
  let isHeld = true
  return () => {
    if (!isHeld) return
    isHeld = false
    session.holds--
    touch(context, session)
  }
}

/** The times of a session that enters `status` now. A failed persistent session keeps its files until it is removed. */
export function endTimes(
  context: SessionContext,
  record: SessionRecord,
  status: SessionState,
  now: number,
): Pick<SessionRecord, 'expires_at' | 'last_activity_at' | 'terminated_at' | 'delete_at'> {
  const isEnded = status === 'failed' || FINAL_STATES.includes(status)
  return {
    expires_at: dueAt(context, record, status, now),
    last_activity_at: EXPIRABLE_STATES.includes(status) ? now : record.last_activity_at,
    terminated_at: isEnded ? (record.terminated_at ?? now) : null,
    delete_at: isEnded && !(status === 'failed' && record.mode === 'persistent') ? now + ENDED_RETENTION_MS : null,
  }
}

/** When a session that is in `status` and was last used at `lastUse` expires: never later than its hard end. Null for never. */
export function dueAt({ config }: SessionContext, record: SessionRecord, status: SessionState, lastUse: number): number | null {
  const seconds = idleSeconds(record, status, config.stopped_retention_seconds)
  if (seconds === undefined) return null
  const end = Math.min(seconds === null ? Infinity : lastUse + seconds * 1000, hardEnd(record) ?? Infinity)
  return end === Infinity ? null : end
}

/** How long a session may stay in a state without use; null: no limit; undefined: the state does not expire. */
function idleSeconds(record: SessionRecord, status: SessionState, stoppedRetention: number): number | null | undefined {
  if (status === 'stopped') return record.mode === 'persistent' ? null : stoppedRetention
  if (!LIVE_STATES.includes(status)) return undefined
  // A session that pauses on expiry is already paused.
  return status === 'paused' && record.on_expiry === 'pause' ? null : record.ttl_seconds
}

export function hardEnd(record: SessionRecord): number | null {
  return record.timeout_sec === null ? null : record.created_at + record.timeout_sec * 1000
}

export async function flushLeases(context: SessionContext): Promise<void> {
  const writes = context.leases
    .take()
    .filter(({ record }) => LIVE_STATES.includes(record.status))
    .map(({ record: { id, last_activity_at, expires_at, cwd } }) => ({ id, last_activity_at, expires_at, cwd }))
  if (writes.length > 0) await writeLeases(context.store, writes)
}
