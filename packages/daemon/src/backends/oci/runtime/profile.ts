// The runtime profile: how a start differs between runtimes on the host's kernel and gVisor, which is a kernel of its own. gVisor passes no file
// descriptors to the sandbox, creates the user namespace itself, and has its own rlimits and loopback interface.
import type { MachineSpec } from '../../backend.ts'
import { openFileLimit } from '../../isolation/open-files.ts'
import { refusalProfile, type SeccompProfile, seccompProfile } from '../../isolation/seccomp.ts'
import type { SocketFolder } from '../../launcher/schema.ts'
import { SOCKET_FOLDER } from '../../rootfs/sandbox-paths.ts'
import type { OciPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import { type IdRange, outsideId } from '../users/id-ranges.ts'
import { type NamedRlimit, named, type Rlimit, rlimits } from './rlimits.ts'

export interface RuntimeProfile {
  /** Arguments of the runner: where its sockets and its configuration are. */
  readonly args: readonly string[]
  /** Where the runner creates its sockets; null for a runner that inherits them. */
  readonly socketFolder: SocketFolder | null
  /** File of the user namespace that the runtime joins; null for a runtime that creates one. */
  readonly users: string | null
  /** Rlimits that the launcher sets on itself, so that the sandbox inherits them. */
  readonly inheritedRlimits: readonly Rlimit[]
  /** Rlimits in the bundle. */
  readonly bundleRlimits: readonly NamedRlimit[]
  /** Addresses that the runner adds to the loopback interface. */
  readonly loopback: readonly string[]
  /** Command line options of the runtime for this session. */
  readonly options: readonly string[]
}

/** Names of the sockets in their folder. */
const SOCKET_NAME = 's'
const EGRESS_NAME = 'e'
/** The runner counts as root of the sandbox, like everything else that runs as root there. With fewer processes it would run out of threads. */
const LEAST_PROCESSES = 48

export function runtimeProfile(host: Host, paths: OciPaths, spec: MachineSpec, ids: readonly IdRange[]): RuntimeProfile {
  const processes = processLimit(host, spec)
  if (host.kind !== 'runsc')
    return {
      // A prepared runtime passes the third descriptor on before it is known whether its machine has egress. Without egress the runner closes it.
      args: ['--listen-fd', '3', '--config-fd', '4', '--egress-fd', '5'],
      socketFolder: null,
      users: paths.users,
      // A rootless launcher has the user id of the daemon's user, so a process limit on it would count all processes of that user.
      inheritedRlimits: rlimits(openFileLimit(spec.pidsLimit), host.rootless ? null : processes),
      bundleRlimits: [],
      loopback: ['127.0.0.53/8'],
      options: [],
    }
  return {
    args: [
      ...['--config-line', '--listen', `${SOCKET_FOLDER}/${SOCKET_NAME}`],
      ...(spec.egress ? ['--egress-listen', `${SOCKET_FOLDER}/${EGRESS_NAME}`] : []),
    ],
    socketFolder: {
      path: paths.socketFolder(spec.id),
      name: SOCKET_NAME,
      egress_name: EGRESS_NAME,
      target: SOCKET_FOLDER,
      owner: outsideId(ids, 0),
    },
    users: null,
    // On the host gVisor is a few processes, which hold the open files of everything that runs in it.
    inheritedRlimits: rlimits(host.openFiles, null),
    bundleRlimits: named(rlimits(host.openFiles, processes)),
    // gVisor's loopback interface has all of 127/8.
    loopback: [],
    // Without it gVisor caches files, and the sandbox would not see changes that the host makes in mounted folders.
    options: spec.mounts.length === 0 ? [] : ['--file-access=shared'],
  }
}

export function processLimit(host: Host, spec: Pick<MachineSpec, 'pidsLimit'>): number {
  return Math.min(Math.max(spec.pidsLimit, LEAST_PROCESSES), host.processes)
}

const SECCOMP = { shared: seccompProfile(process.arch), own: refusalProfile(process.arch) }

export const seccompFor = ({ kind }: Host): SeccompProfile => (kind === 'runsc' ? SECCOMP.own : SECCOMP.shared)
