// Which limit a failed command or process met. The kernel counts kills and refused forks for the whole session, so a grown counter is
// reported to every command that failed since: it names what happened in the session, and not whose process it was. A command that succeeds reads nothing.
import type { LimitHit } from '@sandglass/contract'
import type { LimitEvents } from '../../backends/backend.ts'
import type { SessionContext } from '../context.ts'
import { parsed, RunnerStats } from '../inside/runner-shapes.ts'
import type { LiveSession } from '../live.ts'

/** Part of a live session. */
export type LimitMemory = {
  /** Last reading; null before the first. */
  seen: LimitEvents | null
  /** Of processes by pid. */
  readonly processes: Map<number, ProcessMemory>
}
type ProcessMemory = { since: LimitEvents | null; told?: Promise<LimitHit | null> }

const NONE: LimitEvents = { oomKills: 0, pidRefusals: 0, pids: 0, pidsPeak: 0 }
/** A process that is older than so many others is compared with what was last read. */
const PROCESSES_REMEMBERED = 1024
/** A machine that has no memory left may answer slowly. */
const READ_MS = 1000
/** A write that fails takes the last blocks, and a program that fails may free some of them. */
const FULL_BYTES = 1024 * 1024

/** Of a machine that has just started: the kernel has counted nothing yet. */
export const newLimitMemory = (): LimitMemory => ({ seen: NONE, processes: new Map() })

/** Of a machine that was found again: what it reached before is not told any more. */
export function foundLimitMemory(context: SessionContext, machine: LiveSession['machine'], id: string): LimitMemory {
  const memory: LimitMemory = { seen: null, processes: new Map() }
  machine.limitEvents().then(
    events => {
      memory.seen ??= events
    },
    err => context.log.debug({ err, sessionId: id }, 'limits cannot be read yet'),
  )
  return memory
}

/** The limit that was met since `since`, which is what was seen when the command began. */
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
    if (limits.processes.size <= PROCESSES_REMEMBERED) break
    limits.processes.delete(oldest)
  }
}

/** Read once, when the end of the process is first seen. `reading` is shared by those of one list. */
export function processLimitHit(
  context: SessionContext,
  live: LiveSession,
  pid: number,
  exitCode: number | null,
  reading = once(() => read(context, live)),
): Promise<LimitHit | null> {
  if (exitCode === null || exitCode === 0) return Promise.resolve(null)
  const memory = live.limits.processes.get(pid) ?? { since: live.limits.seen }
  live.limits.processes.set(pid, memory)
  memory.told ??= reading().then(now => hitBetween(live, memory.since, now))
  return memory.told
}

export const sharedReading = (context: SessionContext, live: LiveSession) => once(() => read(context, live))

type Reading = { events: LimitEvents; isDiskFull: boolean }

/** Null when it cannot be had: the result of a command does not wait for it, nor fail with it. */
async function read(context: SessionContext, live: LiveSession): Promise<Reading | null> {
  try {
    const [events, isDiskFull] = await inTime(Promise.all([live.machine.limitEvents(), hasFullDisk(live)]))
    live.limits.seen = events
    return { events, isDiskFull }
  } catch (err) {
    context.log.debug({ err, sessionId: live.row.id }, 'limits cannot be read')
    return null
  }
}

async function hasFullDisk({ link, machine, row }: LiveSession): Promise<boolean> {
  if (machine.unenforced.includes('disk')) return false
  const { disk_free_bytes, disk_free_files } = parsed(row.id, RunnerStats, (await link.request('stats')).message)
  return (disk_free_bytes ?? FULL_BYTES) < FULL_BYTES || disk_free_files === 0
}

function hitBetween({ row }: LiveSession, before: LimitEvents | null, reading: Reading | null): LimitHit | null {
  if (reading === null) return null
  const { events, isDiskFull } = reading
  const grew = (name: keyof LimitEvents) => before !== null && (events[name] ?? 0) > (before[name] ?? 0)
  if (grew('oomKills')) return { limit: 'memory_mb', value: row.memory_mb }
  const reachedBefore = grew('pidsPeak') && (events.pidsPeak ?? 0) >= row.pids_limit
  if (grew('pidRefusals') || reachedBefore || (events.pids ?? 0) >= row.pids_limit)
    return { limit: 'pids_limit', value: row.pids_limit }
  return isDiskFull ? { limit: 'disk_mb', value: row.disk_mb } : null
}

function inTime<T>(work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`not read within ${READ_MS} ms`)), READ_MS)
  return Promise.race([work, promise]).finally(() => clearTimeout(timer))
}

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let done: Promise<T> | undefined
  return () => {
    done ??= work()
    return done
  }
}
