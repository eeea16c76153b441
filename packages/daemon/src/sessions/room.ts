// Room on the host's disk. SECURITY: a disk takes its place only as the sandbox writes. If more were promised than there is, one
// sandbox within its own limit would leave the others, the database and the log without a byte.
import { SandglassError } from '@sandglass/contract'
import type { SessionRow } from '../store/tables.ts'
import { allowedUnenforced } from './allowed-limits.ts'
import { backendOf } from './choose-backend.ts'
import type { World } from './world.ts'

const MiB = 1024 * 1024
/** What the daemon itself may need: the database, logs, images. */
const RESERVE_BYTES = 64 * MiB

/** Throws HOST_FULL where a first start would now: making its image ready takes time, and room as well. */
export async function requireRoom(world: World, disk: Disk): Promise<void> {
  if (isPromised(world, disk)) await ownBytes(world, disk)
}

/** Does the work of a start with the session's disk promised to it, or throws HOST_FULL. An operator who allows disks to go unenforced has no such promise. */
export async function withRoom<T>(world: World, row: SessionRow, work: () => Promise<T>): Promise<T> {
  if (isPromised(world, row)) await world.turns.take('room on the disk', () => promise(world, row))
  try {
    return await work()
  } finally {
    world.promised.delete(row.id)
  }
}

type Disk = Pick<SessionRow, 'id' | 'backend' | 'disk_mb'>

const isPromised = ({ config }: World, { backend }: Disk) => !allowedUnenforced(config, backend).includes('disk')

async function promise(world: World, row: Disk): Promise<void> {
  const bytes = await ownBytes(world, row)
  if (bytes !== null) world.promised.set(row.id, bytes)
}

/** What a session's disk may still take, if there is room for that. Null where the backend has its disks elsewhere. */
async function ownBytes(world: World, row: Disk): Promise<number | null> {
  const room = await backendOf(world, row.backend).room?.()
  if (!room) return null
  // One that starts afresh has no disk yet, and one that starts again has promised its own already.
  const own = room.promised.get(row.id) ?? row.disk_mb * MiB
  // Of one that is being started the folder may be there before the disk: what it was promised counts, not what is seen.
  const promised = new Map([...room.promised, ...world.promised, [row.id, own]])
  const needed = [...promised.values()].reduce((sum, bytes) => sum + bytes, RESERVE_BYTES)
  if (needed > room.free) {
    const what = `its disk would need ${inMb(needed - room.free)} MiB more than is free (${inMb(room.free)} MiB), with what the disks of other sessions may still take`
    throw new SandglassError('HOST_FULL', { what })
  }
  return own
}

const inMb = (bytes: number) => Math.ceil(bytes / MiB)
