// Where everything of this backend is, below the data folder.
import { join } from 'node:path'
import { type MachinePaths, machinePaths } from '../machine/paths.ts'

/** The sockets of one machine: QEMU's monitor, the machine's first process, and the runner's carrier. */
export interface Sockets {
  readonly monitor: string
  readonly control: string
  readonly carrier: string
  /** Only while a machine starts. */
  readonly share: string
}

export interface MicrovmPaths extends MachinePaths {
  /** Where QEMU's root is put together, in a mount namespace of its own. */
  readonly jail: string
  /** Kernels with their initramfs. */
  readonly boot: string
  /** Images as disks. */
  readonly disks: string
  /** Empty session disks, one per size. */
  readonly empty: string
  readonly snapshots: string
  sockets(id: string): Sockets
  bootLog(id: string): string
}

export function microvmPaths(dataDir: string): MicrovmPaths {
  const paths = machinePaths(dataDir, 'carrier')
  const { run, images, session, socketOf } = paths
  return {
    ...paths,
    jail: join(run, 'jail'),
    boot: join(images, 'boot'),
    disks: join(images, 'disks'),
    empty: join(dataDir, 'disks'),
    snapshots: join(images, 'snapshots'),
    sockets: id => ({
      monitor: socketOf(id, 'monitor'),
      control: socketOf(id, 'control'),
      carrier: socketOf(id, 'carrier'),
      share: socketOf(id, 'share'),
    }),
    bootLog: id => join(session(id), 'logs', 'boot.log'),
  }
}
