// The one way a session changes state: looked up in the lifecycle table, stored with its event, then announced and logged.
import { nextState, type SessionEvent } from '@sandglass/contract'
import type { Logger } from '../../log.ts'
import type { SessionContext } from '../context.ts'
import { endTimes } from '../lease/lease.ts'
import type { NetworkSettings } from '../network/network-settings.ts'
import { changeRecord, type SessionRecord } from '../session-record.ts'

export type Change = Pick<SessionRecord, 'reason'> &
  Partial<
    Pick<SessionRecord, 'error_message' | 'limit_hit' | 'container_id' | 'unenforced' | 'started_at' | 'cwd' | 'ca_fingerprint'>
  > &
  Partial<NetworkSettings>

/** The caller holds the session's mutex. */
export async function transition(
  context: SessionContext,
  record: SessionRecord,
  event: SessionEvent,
  change: Change,
  log: Logger = context.log,
): Promise<SessionRecord> {
  const status = nextState(record.id, record.status, event, record.name)
  const now = context.now()
  const patch = {
    error_message: null,
    limit_hit: null,
    cwd: record.cwd,
    ...change,
    status,
    ...endTimes(context, record, status, now),
  }
  const stored = await context.reservedSpace.useFor(() => changeRecord(context.store, record, patch, now))
  const live = context.live.get(record.id)
  if (live) live.record = stored
  context.changes.announce()
  if (stored.expires_at !== null) context.reaper.wakeIn(stored.expires_at - now)
  log.info(
    { sessionId: record.id, from: record.status, to: status, reason: change.reason, error: patch.error_message ?? undefined },
    'session changed state',
  )
  return stored
}
