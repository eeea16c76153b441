// The lease: each activity moves a session's end by its own ttl. A command or stream under way holds it, and the hard end
// holds against everything. Activity is remembered here and written at most once a second for all sessions together, so that
// a command costs the store nothing; a daemon that dies loses at most that second.
import { writeLeases } from '../store/sessions.ts'
import type { SessionRow } from '../store/tables.ts'
import type { LiveSession } from './live.ts'
import type { World } from './world.ts'

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

export function touch(world: World, session: LiveSession): void {
  const now = world.now()
  const { row } = session
  row.last_activity_at = now
  row.expires_at = idleEnd(row, now)
  world.leases.mark(session)
}

/** Holds the lease until the returned function is called. */
export function hold(world: World, session: LiveSession): () => void {
  session.holds++
  touch(world, session)
  let isHeld = true
  return () => {
    if (!isHeld) return
    isHeld = false
    session.holds--
    touch(world, session)
  }
}

/** When a session ends if nothing more happens: never later than its hard end. */
export function idleEnd(row: SessionRow, lastActivity: number): number {
  return Math.min(lastActivity + row.ttl_seconds * 1000, hardEnd(row) ?? Number.MAX_SAFE_INTEGER)
}

export function hardEnd(row: SessionRow): number | null {
  return row.timeout_sec === null ? null : row.created_at + row.timeout_sec * 1000
}

export async function flushLeases(world: World): Promise<void> {
  const writes = world.leases
    .take()
    .flatMap(({ row: { id, last_activity_at, expires_at, cwd } }) =>
      expires_at === null ? [] : [{ id, last_activity_at, expires_at, cwd }],
    )
  if (writes.length > 0) await writeLeases(world.store, writes)
}
