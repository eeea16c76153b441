// Admission by disk space. SECURITY: a disk takes its place only as the sandbox writes. How much more is promised than there is, the operator
// decides (`overcommit.disk`); what keeps the host's disk from running full then is disk-watch.ts.
import { SandglassError } from '@sandglass/contract'
import { diskLines, diskPolicy, reservedBytes } from '../../data-dir/disk-policy.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import { freeAfterWrites } from '../limits/disk-space.ts'
import { backendOf } from './choose-backend.ts'

const MiB = 1024 * 1024

/** Throws HOST_FULL where a first start would now: making its image ready takes time, and room as well. */
export async function requireRoom(context: SessionContext, disk: Disk): Promise<void> {
  await ownBytes(context, disk)
}

/** Does the work of a start with the session's disk promised to it, or throws HOST_FULL. */
export async function withRoom<T>(context: SessionContext, row: SessionRow, work: () => Promise<T>): Promise<T> {
  await context.mutex.run('room on the disk', () => promise(context, row))
  try {
    return await work()
  } finally {
    context.promised.delete(row.id)
  }
}

/** Throws HOST_FULL while a session that writes would be paused. */
export async function requireFreeDisk(context: SessionContext, { backend }: Pick<SessionRow, 'backend'>): Promise<void> {
  const room = await backendOf(context, backend).room?.()
  if (!room) return
  const { pause } = diskLines(diskPolicy(context.config, backend), room.total)
  const free = await freeAfterWrites(context, room.free, pause)
  if (free < pause) throw new SandglassError('HOST_FULL', { what: shortage(free, pause) })
}

/** For messages. */
export const shortage = (free: number, pause: number) =>
  `${Math.max(0, Math.floor(free / MiB))} MiB of disk are free; sessions need at least ${inMb(pause)} to write`

type Disk = Pick<SessionRow, 'id' | 'backend' | 'disk_mb'>

async function promise(context: SessionContext, row: Disk): Promise<void> {
  const bytes = await ownBytes(context, row)
  if (bytes !== null) context.promised.set(row.id, bytes)
}

/** What a session's disk may still take, if there is room for that. Null where the backend has its disks elsewhere. */
async function ownBytes(context: SessionContext, row: Disk): Promise<number | null> {
  const room = await backendOf(context, row.backend).room?.()
  if (!room) return null
  // One that starts afresh has no disk yet, and one that starts again has promised its own already.
  const own = room.promised.get(row.id) ?? row.disk_mb * MiB
  // Of one that is being started the folder may be there before the disk: what it was promised counts, not what is seen.
  const promised = new Map([...room.promised, ...context.promised, [row.id, own]])
  const policy = diskPolicy(context.config, row.backend)
  const needed = reservedBytes(policy, room.total, promised.values())
  const free = await freeAfterWrites(context, room.free, needed)
  if (needed > free) {
    const { pause } = diskLines(policy, room.total)
    const what =
      free < pause
        ? shortage(free, pause)
        : `${inMb(free)} MiB of disk are free; ${inMb(needed)} are needed with overcommit.disk ${policy.overcommit}`
    throw new SandglassError('HOST_FULL', { what })
  }
  return own
}

const inMb = (bytes: number) => Math.ceil(bytes / MiB)
