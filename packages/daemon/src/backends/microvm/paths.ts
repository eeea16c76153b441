// The files and folders of this backend in the data folder.
import { join } from 'node:path'
import { type MachinePaths, machinePaths } from '../machine/paths.ts'

/** The sockets of one machine: QEMU's monitor, the guest's control port, the runner's connection, and its egress endpoint. */
export interface Sockets {
  readonly monitor: string
  readonly control: string
  readonly carrier: string
  /** Only a machine with egress has it. */
  readonly egress: string
  /** Exists only while a machine starts. */
  readonly share: string
}

export interface MicrovmPaths extends MachinePaths {
  /** Mount point of QEMU's root, in a mount namespace of its own. */
  readonly jail: string
  /** Kernels and initramfs. */
  readonly boot: string
  /** Disks of images. */
  readonly disks: string
  /** Empty session disks, one per size. */
  readonly empty: string
  readonly snapshots: string
  sockets(id: string): Sockets
  bootLog(id: string): string
}

export function microvmPaths(dataDir: string): MicrovmPaths {
  const paths = machinePaths(dataDir, 'carrier')
  const { run, images, session, socketOf, egressSocket } = paths
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
      egress: egressSocket(id),
      share: socketOf(id, 'share'),
    }),
    bootLog: id => join(session(id), 'logs', 'boot.log'),
  }
}
