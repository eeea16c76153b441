// Thresholds of free space on the disk of the data folder. Below `floor` no space is given to anything; below `pause` sessions that write
// are paused. Space above `pause` is promised to the disks of sessions, `overcommit` times over, and is free for images and snapshots.
import type { Config } from '@sandglass/contract'
import { allowedUnenforced } from '../config/allowed-unenforced.ts'

const MiB = 1024 * 1024
const GiB = 1024 * MiB
const FLOOR_SHARE = 0.05
const MIN_FLOOR = 64 * MiB
const MAX_FLOOR = 2 * GiB
/** What sessions can write before a pause takes effect: a sample is taken every 50 ms, and the pause itself takes time. */
const MAX_MARGIN = GiB

export interface DiskPolicy {
  /** Infinity where the operator allows the disk limit to go unenforced: no space is promised then. */
  readonly overcommit: number
  /** Undefined: a share of the filesystem. */
  readonly floorMb: number | undefined
}

export const NO_OVERCOMMIT: DiskPolicy = { overcommit: 1, floorMb: undefined }

export function diskPolicy(config: Config, backend: string): DiskPolicy {
  const { disk, disk_floor_mb } = config.overcommit
  const isUnenforced = allowedUnenforced(config, backend).includes('disk')
  return { overcommit: isUnenforced ? Number.POSITIVE_INFINITY : disk, floorMb: disk_floor_mb }
}

/** In bytes of free space, for a filesystem of this size. */
export function diskThresholds({ floorMb }: Pick<DiskPolicy, 'floorMb'>, totalBytes: number): { floor: number; pause: number } {
  const share = Math.min(Math.max(totalBytes * FLOOR_SHARE, MIN_FLOOR), MAX_FLOOR)
  const floor = Math.floor(floorMb === undefined ? share : floorMb * MiB)
  return { floor, pause: floor + Math.min(floor, MAX_MARGIN) }
}

/** Bytes that must stay free for session disks that may still grow by `promised` bytes each. */
export function reservedBytes(policy: DiskPolicy, totalBytes: number, promised: Iterable<number>): number {
  const sum = [...promised].reduce((total, bytes) => total + bytes, 0)
  return diskThresholds(policy, totalBytes).pause + Math.ceil(sum / policy.overcommit)
}
