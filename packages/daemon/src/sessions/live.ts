// The sessions whose machine runs. A command finds its machine here without asking the store.
import { SandglassError, SESSION_ID } from '@sandglass/contract'
import type { Machine } from '../backends/backend.ts'
import type { RunnerLink } from '../runner-link/link.ts'
import { findSession } from '../store/sessions.ts'
import type { SessionRow } from '../store/tables.ts'
import type { SessionContext } from './context.ts'
import type { LimitMemory } from './limits/limit-hits.ts'

export type LiveSession = {
  /** As stored, but for what the lease writes later: last_activity_at, expires_at and cwd. */
  row: SessionRow
  readonly machine: Machine
  readonly link: RunnerLink
  /** Commands and streams under way; while there is one the session does not expire. */
  holds: number
  readonly limits: LimitMemory
}

export class LiveSessions {
  readonly #byId = new Map<string, LiveSession>()
  readonly #idByName = new Map<string, string>()

  get(ref: string): LiveSession | undefined {
    return this.#byId.get(ref) ?? this.#byId.get(this.#idByName.get(ref) ?? '')
  }

  add(session: LiveSession): void {
    this.#byId.set(session.row.id, session)
    this.#idByName.set(session.row.name, session.row.id)
  }

  remove(session: LiveSession): void {
    const { id, name } = session.row
    if (this.#byId.get(id) !== session) return
    this.#byId.delete(id)
    this.#idByName.delete(name)
  }

  all(): LiveSession[] {
    return [...this.#byId.values()]
  }
}

/** The running session that a command is for. `verb` is for the refusal: cannot exec in sess_…: it is paused. */
export async function runningSession(context: SessionContext, ref: string, verb: string): Promise<LiveSession> {
  const live = context.live.get(ref)
  if (live?.row.status === 'running') return live
  const row = live?.row ?? (await storedSession(context, ref))
  // Stored as running, yet not found again: its backend is missing from this daemon.
  if (row.status === 'running') throw new SandglassError('RUNNER_LOST', { id: row.id })
  throw new SandglassError('WRONG_STATE', { id: row.id, name: row.name, state: row.status, event: verb })
}

/** The session by id or name, ended ones included. */
export async function storedSession(context: SessionContext, ref: string): Promise<SessionRow> {
  const row = await findSession(context.store, SESSION_ID.test(ref) ? { id: ref } : { name: ref })
  if (!row) throw new SandglassError('SESSION_NOT_FOUND', { id: ref })
  return row
}
