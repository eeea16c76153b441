// The sessions whose machine is up, in memory: a command finds its machine without a query to the store. Also how any session is looked up.
import { SandglassError } from '@sandglass/contract'
import type { RunnerLink } from '@sandglass/runner-link/link'
import type { Machine } from '../backends/backend.ts'
import type { SessionContext } from './context.ts'
import type { LimitBaseline } from './limits/limit-hits.ts'
import { findRecord, type SessionRecord } from './session-record.ts'

export type LiveSession = {
  /** As stored, but for what the lease writes up to a second later: last_activity_at, expires_at and cwd. */
  record: SessionRecord
  readonly machine: Machine
  readonly link: RunnerLink
  /** How many commands and streams under way hold the lease; while there is one the session does not expire. */
  holds: number
  readonly limits: LimitBaseline
}

export class LiveSessions {
  readonly #byId = new Map<string, LiveSession>()
  readonly #idByName = new Map<string, string>()

  get(ref: string): LiveSession | undefined {
    return this.#byId.get(ref) ?? this.#byId.get(this.#idByName.get(ref) ?? '')
  }

  add(session: LiveSession): void {
    this.#byId.set(session.record.id, session)
    this.#idByName.set(session.record.name, session.record.id)
  }

  remove(session: LiveSession): void {
    const { id, name } = session.record
    if (this.#byId.get(id) !== session) return
    this.#byId.delete(id)
    this.#idByName.delete(name)
  }

  all(): LiveSession[] {
    return [...this.#byId.values()]
  }
}

/** The running session that a command is for. `verb` is for the error: cannot exec in sess_…: it is paused. */
export async function runningSession(context: SessionContext, ref: string, verb: string): Promise<LiveSession> {
  const live = context.live.get(ref)
  if (live?.record.status === 'running') return live
  const record = live?.record ?? (await getSession(context, ref))
  // Stored as running but not live: this daemon does not have its backend.
  if (record.status === 'running') throw new SandglassError('RUNNER_LOST', { id: record.id })
  throw new SandglassError('WRONG_STATE', { id: record.id, name: record.name, state: record.status, event: verb })
}

/** GET /v1/sessions/{id}: by id or name, ended sessions included. Of a live one the lease is current, not as last written. */
export async function getSession(context: SessionContext, ref: string): Promise<SessionRecord> {
  const record = await findSession(context, ref)
  if (!record) throw new SandglassError('SESSION_NOT_FOUND', { id: ref })
  return record
}

export async function findSession(context: SessionContext, ref: string): Promise<SessionRecord | undefined> {
  return context.live.get(ref)?.record ?? (await findRecord(context.store, ref))
}
