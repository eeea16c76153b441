// Where everything of this backend is, below the data folder.
import { join } from 'node:path'
import { SandglassError } from '@sandglass/contract/tables'
import { parentName } from '../cgroups/layout.ts'

/** Longest path the kernel takes for a unix socket, without its end mark. */
const SOCKET_PATH_BYTES = 107
const ID = /^[a-z0-9][a-z0-9_-]{0,63}$/

export interface OciPaths {
  readonly dataDir: string
  readonly sessions: string
  readonly run: string
  /** Records of runtimes that need them. */
  readonly runtimeRoot: string
  /** Where launchers mount a folder for their runtime, each in a namespace of its own. */
  readonly runtimeMount: string
  readonly images: string
  readonly disks: string
  /** A folder that stays empty. */
  readonly empty: string
  /** Where launchers mount a disk that has no session yet, each in a namespace of its own. */
  readonly spareMount: string
  /** A file at which each launcher shows its machine's user namespace to the runtime. */
  readonly users: string
  /** Name of the daemon's folder in every cgroup hierarchy. */
  readonly cgroupParent: string
  isId(name: string): boolean
  session(id: string): string
  socket(id: string): string
}

export function ociPaths(dataDir: string): OciPaths {
  const run = join(dataDir, 'run')
  const sample = join(run, `sess_${'x'.repeat(16)}.sock`)
  if (Buffer.byteLength(sample) > SOCKET_PATH_BYTES) {
    const room = SOCKET_PATH_BYTES - Buffer.byteLength(sample) + Buffer.byteLength(dataDir)
    throw new SandglassError('CONFIG_INVALID', {
      source: 'data_dir',
      issue: `${dataDir} is too long for unix sockets below it: at most ${room} bytes`,
    })
  }
  // SECURITY: ids become paths; whatever the caller checked, nothing here may lead out of the data folder.
  const checked = (id: string) => {
    if (!ID.test(id)) throw new SandglassError('INTERNAL', { message: `not a machine id: ${JSON.stringify(id)}` })
    return id
  }
  const sessions = join(dataDir, 'sessions')
  return {
    dataDir,
    sessions,
    run,
    runtimeRoot: join(run, 'oci'),
    runtimeMount: join(run, 'runtime'),
    images: join(dataDir, 'images'),
    disks: join(dataDir, 'disks'),
    empty: join(dataDir, 'images', 'empty'),
    spareMount: join(run, 'disk'),
    users: join(run, 'users'),
    cgroupParent: parentName(dataDir),
    isId: name => ID.test(name),
    session: id => join(sessions, checked(id)),
    socket: id => join(run, `${checked(id)}.sock`),
  }
}
