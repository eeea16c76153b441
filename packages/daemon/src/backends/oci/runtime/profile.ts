// What a start does one way on the kernel of the host, and another way in a kernel of the sandbox's own: gVisor, which is a program that hands on
// no descriptors, makes its own user namespace, and keeps limits and a loopback of its own.
import type { MachineSpec } from '../../backend.ts'
import { openFileLimit } from '../../isolation/open-files.ts'
import { refusalProfile, type SeccompProfile, seccompProfile } from '../../isolation/seccomp.ts'
import { SOCKET_FOLDER } from '../../rootfs/sandbox-paths.ts'
import type { OciPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import { type IdRange, outsideId } from '../users/id-ranges.ts'
import { type NamedRlimit, named, type Rlimit, rlimits } from './rlimits.ts'

export interface KernelWays {
  /** Of the runner: where its socket and its configuration are. */
  readonly args: readonly string[]
  /** Where the runner makes its socket; null for one that inherits it. */
  readonly socketFolder: object | null
  /** Where the runtime finds the machine's user namespace; null for one that makes it. */
  readonly users: string | null
  /** What the launcher takes on, and what the runtime is told of. */
  readonly inherited: readonly Rlimit[]
  readonly told: readonly NamedRlimit[]
  /** Addresses that the runner adds to the loopback interface. */
  readonly loopback: readonly string[]
  /** Options of the runtime for this session. */
  readonly options: readonly string[]
}

/** The socket's name, in its folder. */
const SOCKET_NAME = 's'
/** The runner and what runs as root in the sandbox share one user: with fewer the runner would be short of threads. */
const LEAST_PROCESSES = 48

export function kernelWays(host: Host, paths: OciPaths, spec: MachineSpec, ids: readonly IdRange[]): KernelWays {
  const processes = processLimit(host, spec)
  if (host.kind !== 'runsc')
    return {
      args: ['--listen-fd', '3', '--config-fd', '4'],
      socketFolder: null,
      users: paths.users,
      // An ordinary user's launcher has the user's own id: limited itself, it would count all that the user runs.
      inherited: rlimits(openFileLimit(spec.pidsLimit), host.rootless ? null : processes),
      told: [],
      loopback: ['127.0.0.53/8'],
      options: [],
    }
  return {
    args: ['--config-line', '--listen', `${SOCKET_FOLDER}/${SOCKET_NAME}`],
    socketFolder: { path: paths.socketFolder(spec.id), name: SOCKET_NAME, target: SOCKET_FOLDER, owner: outsideId(ids, 0) },
    users: null,
    // To the host gVisor is few processes, which hold the files of all that run in it.
    inherited: rlimits(host.openFiles, null),
    told: named(rlimits(host.openFiles, processes)),
    // All of 127/8 is there.
    loopback: [],
    // What the host changes in its folders is seen inside, and what gVisor remembers of files is not trusted.
    options: spec.mounts.length === 0 ? [] : ['--file-access=shared'],
  }
}

export function processLimit(host: Host, spec: Pick<MachineSpec, 'pidsLimit'>): number {
  return Math.min(Math.max(spec.pidsLimit, LEAST_PROCESSES), host.processes)
}

const PROFILES = { shared: seccompProfile(process.arch), own: refusalProfile(process.arch) }

export const kernelProfile = ({ kind }: Host): SeccompProfile => (kind === 'runsc' ? PROFILES.own : PROFILES.shared)
