// Finds the limit that made a command or process fail. The kernel counts kills and refused forks per session, not per process: if a counter
// grew while a command ran and the command failed, the limit is reported with it, although another process may have met it. The counters are
// not read for a command that succeeds.
import type { LimitHit } from '@sandglass/contract'
import type { LimitEvents } from '../../backends/backend.ts'
import { withDeadline } from '../../lib/with-deadline.ts'
import type { SessionContext } from '../context.ts'
import { parsed, RunnerStats } from '../inside/runner-shapes.ts'
import type { LiveSession } from '../live.ts'

/** The readings that later ones are compared with; part of a live session. */
export type LimitBaseline = {
  /** Last reading; null before the first. */
  seen: LimitEvents | null
  /** By pid. */
  readonly processes: Map<number, ProcessBaseline>
}
type ProcessBaseline = { since: LimitEvents | null; hit?: Promise<LimitHit | null> }

const NONE: LimitEvents = { oomKills: 0, pidRefusals: 0, pids: 0, pidsPeak: 0 }
/** An older process is compared with the last reading. */
const MAX_PROCESSES = 1024
/** A machine that has no memory left may answer slowly. */
const READ_MS = 1000
/** A write that fails takes the last blocks, and a program that fails may free some of them. */
const FULL_BYTES = 1024 * 1024

/** Of a machine that has just started: the kernel has counted nothing yet. */
export const newLimitBaseline = (): LimitBaseline => ({ seen: NONE, processes: new Map() })

/** Of a machine that was recovered: limits that it met before are not reported any more. */
export function foundLimitBaseline(context: SessionContext, machine: LiveSession['machine'], id: string): LimitBaseline {
  const baseline: LimitBaseline = { seen: null, processes: new Map() }
  machine.limitEvents().then(
    events => {
      baseline.seen ??= events
    },
    err => context.log.debug({ err, sessionId: id }, 'limits cannot be read yet'),
  )
  return baseline
}

/** The limit that was met since `since`, the last reading when the command began. */
export async function limitHit(
  context: SessionContext,
  live: LiveSession,
  exitCode: number,
  since: LimitEvents | null,
): Promise<LimitHit | null> {
  return exitCode === 0 ? null : hitBetween(live, since, await read(context, live))
}

export function rememberProcess({ limits }: LiveSession, pid: number, since: LimitEvents | null): void {
  limits.processes.delete(pid)
  limits.processes.set(pid, { since })
  for (const oldest of limits.processes.keys()) {
    if (limits.processes.size <= MAX_PROCESSES) break
    limits.processes.delete(oldest)
  }
}

/** Decided once, when the end of the process is first seen. The processes of one list share a reading. */
export function processLimitHit(
  context: SessionContext,
  live: LiveSession,
  pid: number,
  exitCode: number | null,
  reading = limitReading(context, live),
): Promise<LimitHit | null> {
  if (exitCode === null || exitCode === 0) return Promise.resolve(null)
  const baseline = live.limits.processes.get(pid) ?? { since: live.limits.seen }
  live.limits.processes.set(pid, baseline)
  baseline.hit ??= reading().then(now => hitBetween(live, baseline.since, now))
  return baseline.hit
}

/** Reads at the first call; later calls share that reading. */
export function limitReading(context: SessionContext, live: LiveSession): () => Promise<Reading | null> {
  let reading: Promise<Reading | null> | undefined
  return () => {
    reading ??= read(context, live)
    return reading
  }
}

type Reading = { events: LimitEvents; isDiskFull: boolean }

/** Null when it fails: the result of a command neither waits for it nor fails with it. */
async function read(context: SessionContext, live: LiveSession): Promise<Reading | null> {
  try {
    const [events, isDiskFull] = await withDeadline(Promise.all([live.machine.limitEvents(), hasFullDisk(live)]), READ_MS)
    live.limits.seen = events
    return { events, isDiskFull }
  } catch (err) {
    context.log.debug({ err, sessionId: live.record.id }, 'limits cannot be read')
    return null
  }
}

async function hasFullDisk({ link, machine, record }: LiveSession): Promise<boolean> {
  if (machine.unenforced.includes('disk')) return false
  const { disk_free_bytes, disk_free_files } = parsed(record.id, RunnerStats, (await link.request('stats')).message)
  return (disk_free_bytes ?? FULL_BYTES) < FULL_BYTES || disk_free_files === 0
}

function hitBetween({ record }: LiveSession, before: LimitEvents | null, reading: Reading | null): LimitHit | null {
  if (reading === null) return null
  const { events, isDiskFull } = reading
  const grew = (name: keyof LimitEvents) => before !== null && (events[name] ?? 0) > (before[name] ?? 0)
  if (grew('oomKills')) return { limit: 'memory_mb', value: record.memory_mb }
  const reachedBefore = grew('pidsPeak') && (events.pidsPeak ?? 0) >= record.pids_limit
  if (grew('pidRefusals') || reachedBefore || (events.pids ?? 0) >= record.pids_limit)
    return { limit: 'pids_limit', value: record.pids_limit }
  return isDiskFull ? { limit: 'disk_mb', value: record.disk_mb } : null
}
