// Where everything of this backend is, below the data folder.
import { join } from 'node:path'
import { parentName } from '../cgroups/layout.ts'
import { type MachinePaths, machinePaths } from '../machine/paths.ts'

export interface OciPaths extends MachinePaths {
  /** Records of runtimes that need them. */
  readonly runtimeRoot: string
  /** Where launchers mount a folder for their runtime, each in a namespace of its own. */
  readonly runtimeMount: string
  readonly disks: string
  /** A folder that stays empty. */
  readonly empty: string
  /** Where launchers mount a disk that has no session yet, each in a namespace of its own. */
  readonly spareMount: string
  /** A file at which each launcher shows its machine's user namespace to the runtime. */
  readonly users: string
  /** Name of the daemon's folder in every cgroup hierarchy. */
  readonly cgroupParent: string
  socket(id: string): string
  /** Where the runner makes its socket if it is given none. */
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
