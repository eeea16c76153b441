// How the disk of the data folder is divided. Below `floor` nothing is given away; between `floor` and `pause` sessions that write are
// paused; what lies above is promised to the disks of sessions, `overcommit` times over, and is free for images and snapshots.
import type { Config } from '@sandglass/contract'

const MiB = 1024 * 1024
const GiB = 1024 * MiB
const FLOOR_SHARE = 0.05
const LEAST_FLOOR = 64 * MiB
const MOST_FLOOR = 2 * GiB
/** What the sessions can write before a pause takes effect: a look every 50 ms, and the pause itself. */
const MOST_MARGIN = GiB

export interface DiskPolicy {
  /** Infinity where the operator lets disks go unenforced: nothing is promised then. */
  readonly overcommit: number
  /** Undefined: a share of the filesystem. */
  readonly floorMb: number | undefined
}

export const NO_OVERCOMMIT: DiskPolicy = { overcommit: 1, floorMb: undefined }

export function diskPolicy({ overcommit, backends }: Config, backend: string): DiskPolicy {
  const { allow_unenforced } = backends[backend as keyof typeof backends] ?? backends.oci
  return {
    overcommit: allow_unenforced.includes('disk') ? Number.POSITIVE_INFINITY : overcommit.disk,
    floorMb: overcommit.disk_floor_mb,
  }
}

/** In bytes of free space, for a filesystem of this size. */
export function diskLines({ floorMb }: Pick<DiskPolicy, 'floorMb'>, totalBytes: number): { floor: number; pause: number } {
  const share = Math.min(Math.max(totalBytes * FLOOR_SHARE, LEAST_FLOOR), MOST_FLOOR)
  const floor = Math.floor(floorMb === undefined ? share : floorMb * MiB)
  return { floor, pause: floor + Math.min(floor, MOST_MARGIN) }
}

/** Free bytes that must stay where the disks of sessions may still grow by so many each. */
export function reservedBytes(policy: DiskPolicy, totalBytes: number, promised: Iterable<number>): number {
  const sum = [...promised].reduce((total, bytes) => total + bytes, 0)
  return diskLines(policy, totalBytes).pause + Math.ceil(sum / policy.overcommit)
}
