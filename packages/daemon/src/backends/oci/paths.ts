// The paths of this backend below the data folder.
import { join } from 'node:path'
import { parentName } from '../cgroups/layout.ts'
import { type MachinePaths, machinePaths } from '../machine/paths.ts'

export interface OciPaths extends MachinePaths {
  /** Where runtimes keep their own records of containers. */
  readonly runtimeRoot: string
  /** Mount point for the runtime's private records; each launcher mounts there in its own mount namespace. */
  readonly runtimeMount: string
  readonly disks: string
  /** A folder that stays empty: the lowest layer of overlay mounts. */
  readonly empty: string
  /** Mount point for a disk that has no session yet; each launcher mounts there in its own mount namespace. */
  readonly spareMount: string
  /** The file on which each launcher mounts the user namespace of its machine, for the runtime to join. */
  readonly users: string
  /** Name of the daemon's folder in every cgroup hierarchy. */
  readonly cgroupParent: string
  socket(id: string): string
  /** Where the runner creates its socket when it cannot inherit one. */
  socketFolder(id: string): string
}

export function ociPaths(dataDir: string): OciPaths {
  const paths = machinePaths(dataDir, 'sock')
  const { run, images, socketOf } = paths
  return {
    ...paths,
    runtimeRoot: join(run, 'oci'),
    runtimeMount: join(run, 'runtime'),
    disks: join(dataDir, 'disks'),
    empty: join(images, 'empty'),
    spareMount: join(run, 'disk'),
    users: join(run, 'users'),
    cgroupParent: parentName(dataDir),
    socket: id => socketOf(id, 'sock'),
    socketFolder: id => socketOf(id, 'd'),
  }
}
