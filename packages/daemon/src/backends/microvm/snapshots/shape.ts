// What decides the state that a machine boots to before it is a session's. Machines of one shape can start from one snapshot.
import { createHash } from 'node:crypto'
import { cpus, release } from 'node:os'
import type { DiskFormat } from '../disks/session-disk.ts'
import type { Host } from '../probe.ts'

export interface Shape {
  /** File names of the image's disks. */
  readonly imageDisk: string
  readonly topDisk: string
  /** When they were made: the same image may be laid out otherwise the next time, and a snapshot knows where its files were. */
  readonly disksMadeMs: readonly number[]
  readonly layers: number
  readonly memoryMb: number
  readonly vcpus: number
  readonly diskMb: number
  readonly diskFormat: DiskFormat
  readonly nestedVirt: boolean
  /** Sets of drivers beside the usual ones. */
  readonly modules: readonly string[]
  readonly extraArgs: readonly string[]
}

export function shapeKey(shape: Shape, host: Host): string {
  const { qemu, qemuVersion, accel, tscKhz, boot } = host
  const machine = [release(), cpus()[0]?.model, qemu, qemuVersion, accel, tscKhz, boot.digest]
  return createHash('sha256')
    .update(JSON.stringify([machine, shape]))
    .digest('hex')
    .slice(0, 16)
}
