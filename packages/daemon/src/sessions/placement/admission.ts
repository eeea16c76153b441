// Admission by disk space. SECURITY: a session's disk takes space only as the sandbox writes. The operator decides how much more is promised than
// exists (`overcommit.disk`); disk-watch.ts then keeps the host's disk from running full.
import { SandglassError } from '@sandglass/contract'
import { diskPolicy, diskThresholds, reservedBytes } from '../../data-dir/disk-policy.ts'
import { stoppedSessions } from '../../store/sessions.ts'
import type { SessionContext } from '../context.ts'
import { freeAfterFlush } from '../limits/disk-space.ts'
import type { SessionRecord } from '../session-record.ts'
import { backendOf } from './choose-backend.ts'

const MiB = 1024 * 1024

/** A session, or a machine of an image build. */
type WithDisk = Pick<SessionRecord, 'id' | 'backend' | 'disk_mb'>

/** Throws HOST_FULL if a start would be refused now. Checked before an image is pulled and prepared, which takes time and space. */
export async function requireDiskSpace(context: SessionContext, session: WithDisk): Promise<void> {
  await admittedBytes(context, session)
}

/** Runs the start of a session with its disk space promised to it, or throws HOST_FULL. */
export async function withDiskSpace<T>(context: SessionContext, session: WithDisk, start: () => Promise<T>): Promise<T> {
  await context.mutex.run('disk admission', async () => {
    const bytes = await admittedBytes(context, session)
    if (bytes !== null) context.promised.set(session.id, bytes)
  })
  try {
    return await start()
  } finally {
    context.promised.delete(session.id)
  }
}

/** Throws HOST_FULL while free space is below the threshold at which sessions that write are paused. */
export async function requireSpaceToWrite(context: SessionContext, { backend }: SessionRecord): Promise<void> {
  const space = await backendOf(context, backend).diskSpace?.()
  if (!space) return
  const { pause } = diskThresholds(diskPolicy(context.config, backend), space.total)
  const free = await freeAfterFlush(context, space.free, pause)
  if (free < pause) throw new SandglassError('HOST_FULL', { what: shortage(free, pause) })
}

/** For messages. */
export const shortage = (free: number, pause: number) =>
  `${Math.max(0, Math.floor(free / MiB))} MiB of disk are free; sessions need at least ${inMb(pause)} MiB to write`

/** By how many bytes the session's disk may still grow, if that fits. Null where the backend's disks are not on this host's data folder. */
async function admittedBytes(context: SessionContext, session: WithDisk): Promise<number | null> {
  const space = await backendOf(context, session.backend).diskSpace?.()
  if (!space) return null
  // A session that starts again already has a disk with a promise of its own.
  const own = space.promised.get(session.id) ?? session.disk_mb * MiB
  // A start under way may have its folder before its disk: its admission counts, not what the backend sees of it.
  const promised = new Map([...space.promised, ...context.promised, [session.id, own]])
  // The disk of a stopped session does not grow; its start is admitted like any other.
  for (const id of await stoppedSessions(context.store)) if (id !== session.id && !context.promised.has(id)) promised.delete(id)
  const policy = diskPolicy(context.config, session.backend)
  const needed = reservedBytes(policy, space.total, promised.values())
  const free = await freeAfterFlush(context, space.free, needed)
  if (needed <= free) return own
  const { pause } = diskThresholds(policy, space.total)
  const what =
    free < pause
      ? shortage(free, pause)
      : `${inMb(free)} MiB of disk are free; ${inMb(needed)} MiB are needed with overcommit.disk ${policy.overcommit}`
  throw new SandglassError('HOST_FULL', { what })
}

const inMb = (bytes: number) => Math.ceil(bytes / MiB)
