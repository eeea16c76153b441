// Follows the state changes of one session or of all, from where the reader was.
import { FINAL_STATES, type SessionEventRecord } from '@sandglass/contract'
import { eventsAfter, lastEventId } from '../store/events.ts'
import type { World } from './context.ts'
import { getSession } from './get.ts'
import { showEvent } from './show.ts'

const PAGE = 500

/** All sessions: what happens from now on, or after `lastId`. */
export async function followAll(
  world: World,
  lastId: number | null,
  signal: AbortSignal,
): Promise<AsyncGenerator<SessionEventRecord, void, undefined>> {
  return follow(world, lastId ?? (await lastEventId(world.store)), null, signal)
}

/** One session: its whole history, or what came after `lastId`; ends with the session. */
export async function followSession(
  world: World,
  ref: string,
  lastId: number | null,
  signal: AbortSignal,
): Promise<AsyncGenerator<SessionEventRecord, void, undefined>> {
  const { id } = await getSession(world, ref)
  return follow(world, lastId ?? 0, id, signal)
}

/** The store is the queue: a reader that is slow or comes back reads on there, and nothing is kept for it in memory. */
async function* follow(
  world: World,
  after: number,
  sessionId: string | null,
  signal: AbortSignal,
): AsyncGenerator<SessionEventRecord, void, undefined> {
  let last = after
  while (!signal.aborted) {
    const changed = world.changes.next(signal)
    const rows = await eventsAfter(world.store, last, sessionId, PAGE)
    for (const row of rows) {
      last = row.id
      yield showEvent(row)
    }
    if (sessionId !== null && (await hasEnded(world, sessionId, last))) return
    if (rows.length === 0) await changed
  }
}

/** Ended, and every event of it was read. */
async function hasEnded(world: World, id: string, last: number): Promise<boolean> {
  if (world.live.get(id)) return false
  const { status } = await getSession(world, id).catch(() => ({ status: 'terminated' as const }))
  return FINAL_STATES.includes(status) && (await eventsAfter(world.store, last, id, 1)).length === 0
}
