// The lease: each activity moves a session's end by its own ttl. A command, stream or detached process under way holds it;
// the hard end comes whatever runs. Activity is remembered here and written at most once a second for all sessions together, so that
// a command costs the store nothing; a daemon that dies loses at most that second.

import type { SessionState } from '@sandglass/contract'
import { LEASED, writeLeases } from '../../store/sessions.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import type { LiveSession } from '../live.ts'

const WRITE_EVERY_MS = 1000

export class Leases {
  readonly #dirty = new Set<LiveSession>()
  #timer: NodeJS.Timeout | undefined
  #flush: () => void = () => undefined

  /** `flush` is called once a second while anything is unwritten. */
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

/** Moves the lease on from the last activity, which is now unless it was before. */
export function touch(context: SessionContext, session: LiveSession, lastActivity = context.now()): void {
  const { row } = session
  row.last_activity_at = lastActivity
  row.expires_at = dueAt(context, row, row.status, lastActivity)
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

/** When the sweep acts on a session that is in `status` from `now` on and is not used: never later than its hard end. Null for never. */
export function dueAt({ config }: SessionContext, row: SessionRow, status: SessionState, now: number): number | null {
  const seconds = idleSeconds(row, status, config.stopped_retention_seconds)
  if (seconds === undefined) return null
  const end = Math.min(seconds === null ? Infinity : now + seconds * 1000, hardEnd(row) ?? Infinity)
  return end === Infinity ? null : end
}

/** How long a session stays in a state without use; null: no limit; undefined: the lease does not end this state. */
function idleSeconds(row: SessionRow, status: SessionState, retention: number): number | null | undefined {
  if (status === 'stopped') return row.mode === 'persistent' ? null : retention
  if (!LEASED.includes(status)) return undefined
  // A paused session has already become what its expiry would make of it.
  return status === 'paused' && row.on_expiry === 'pause' ? null : row.ttl_seconds
}

export function hardEnd(row: SessionRow): number | null {
  return row.timeout_sec === null ? null : row.created_at + row.timeout_sec * 1000
}

export async function flushLeases(context: SessionContext): Promise<void> {
  const writes = context.leases
    .take()
    .filter(({ row }) => LEASED.includes(row.status))
    .map(({ row: { id, last_activity_at, expires_at, cwd } }) => ({ id, last_activity_at, expires_at, cwd }))
  if (writes.length > 0) await writeLeases(context.store, writes)
}
