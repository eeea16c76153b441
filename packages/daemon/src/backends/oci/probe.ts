// Probes what this host can do by trying it: the runtime, mounts, disks, cgroups, user ids.
import { existsSync, lstatSync, readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { findProgram } from '../../lib/find-program.ts'
import type { LimitKind, Probe } from '../backend.ts'
import { usableCgroups } from '../cgroups/delegation.ts'
import { type CgroupLayout, missingControllers, parentName } from '../cgroups/layout.ts'
import { hardLimit, mostOpenFiles } from '../isolation/open-files.ts'
import type { Probed } from '../launcher/schema.ts'
import { LaunchError, type Launcher } from './launcher/launcher.ts'
import { type Runtime, type Runtimes, runtimeProblem, runtimeUse } from './runtime/runtimes.ts'
import { endsWithLogin, inUserNamespace, userNamespaceProblem } from './users/enter-userns.ts'
import { fullPool, type IdPool, mappedPool } from './users/id-ranges.ts'
import { moreSubIds } from './users/sub-ids.ts'

/** The means that machines are started with on this host. */
export interface Host extends Runtime {
  readonly rootless: boolean
  readonly pool: IdPool
  readonly cgroups: CgroupLayout | null
  /** Path of mkfs.ext4; null where disks are in memory. */
  readonly mkfs: string | null
  /** Whether host folders can be mounted through an overlay per machine instead of bind mounts, which share inodes with the host. */
  readonly privateLayers: boolean
  /** The reason why a root filesystem cannot be writable on this host, or null. */
  readonly noWritableRoot: string | null
  readonly openFiles: number
  readonly processes: number
  /** Whether the daemon may change the resource limits of other processes. */
  readonly mayLimitProcesses: boolean
  /**
   * Where the launcher assembles the root filesystem, in its own mount namespace. The runtime resolves the path with a user id that owns nothing,
   * so it is a folder that everybody may enter.
   */
  readonly stage: string
}

export interface HostProbe {
  /** Null when no machine can be started. */
  readonly host: Host | null
  readonly probe: Probe
}

/** Folders with nothing that a runtime needs. Only the launcher that mounts on one sees the mount. */
const STAGES = ['/mnt', '/media', '/srv', '/opt', '/home', '/tmp']
const INSTALL = 'sudo apt-get install -y crun'
const AS_USER_SERVICE = 'as a systemd service of your user (docs/guides/running-as-a-service.md)'
/** Before version 252 systemd delegates no cpu controller to users. */
const DELEGATE_ALL = `sudo install -d /etc/systemd/system/user@.service.d && printf '[Service]\\nDelegate=cpu memory pids\\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload, and log in again`

export async function probeHost(dataDir: string, runtimes: Runtimes, launcher: Launcher): Promise<HostProbe> {
  const runtime = runtimes.main()
  if (runtime === null) {
    const { why, fix } = runtimes.missingMain()
    return unavailable(why, fix)
  }
  const rootless = inUserNamespace()
  if (process.getuid?.() !== 0) {
    const problem = userNamespaceProblem()
    return unavailable(
      problem?.why ?? 'the daemon is not inside a user namespace',
      problem?.fix ?? 'start it with `sandglass serve`',
    )
  }
  const version = await runtimes.version(runtime)
  if (version === null) return unavailable(`${runtime} does not run`, INSTALL)
  const can = await tryMounts(dataDir, launcher)
  if (can.mounts !== '') return unavailable(`mounts are refused: ${can.mounts}`, 'run the daemon as root, or outside a container')
  const pool = rootless
    ? mappedPool(readFileSync('/proc/self/uid_map', 'utf8'), readFileSync('/proc/self/gid_map', 'utf8'))
    : fullPool()
  if (pool.slots === 0) return unavailable('fewer than 1024 sub-ids are mapped', moreSubIds())
  const needed = [dataDir, ...runtimes.paths()]
  const stage = STAGES.find(dir => isOpenFolder(dir) && !needed.some(path => path === dir || path.startsWith(`${dir}/`)))
  if (stage === undefined)
    return unavailable(`none of ${STAGES.join(', ')} is a folder that everybody may enter`, 'sudo install -d -m 755 /mnt')
  const cgroups = usableCgroups(!rootless, `${parentName(dataDir)}-trial`)
  const use = runtimeUse(runtime, version, cgroups)
  const problem = runtimeProblem(use, version, { rootless, cgroups })
  if (problem) return unavailable(problem.why, `${problem.fix}, or set backends.oci.runtime to crun`)
  const host: Host = {
    ...use,
    rootless,
    pool,
    cgroups,
    mkfs: can.loop === '' ? findProgram('mkfs.ext4') : null,
    privateLayers: can.overlay === '',
    noWritableRoot: rootless
      ? 'a writable root filesystem needs root'
      : can.idmap === ''
        ? null
        : `layers cannot be shifted into a session's ids: ${can.idmap}`,
    openFiles: mostOpenFiles(),
    processes: hardLimit('Max processes'),
    mayLimitProcesses: mayLimitProcesses(),
    stage,
  }
  return { host, probe: describe(host, version) }
}

function describe(host: Host, version: string): Probe {
  const unenforceable: LimitKind[] = missingControllers(host.cgroups)
  const swap = readFileSync('/proc/swaps', 'utf8').trim().split('\n').length > 1
  if (swap && host.cgroups?.countsSwap === false && !unenforceable.includes('memory')) unenforceable.push('memory')
  const weaker = []
  if (host.rootless)
    weaker.push({
      what: 'the daemon runs as an ordinary user: the root filesystem is always read-only, and so are folders of the host',
      fix: 'run the daemon as root',
    })
  if (host.mkfs === null) {
    weaker.push({
      what: 'session files are kept in memory until the session is stopped, and are lost if the host stops before',
      fix: host.rootless ? 'run the daemon as root' : 'make /dev/loop-control available and install e2fsprogs',
    })
  }
  if (!host.privateLayers) {
    weaker.push({
      what: 'sandboxes share inodes with the host: a sandbox can observe when programs of the host are used',
      fix: host.rootless ? 'run the daemon as root, or on Linux 5.11 or later' : 'load the kernel module overlay',
    })
  }
  if (host.rootless && endsWithLogin(host.cgroups?.prefix ?? ''))
    weaker.push({ what: 'sessions end when you log out for the last time', fix: 'sudo loginctl enable-linger $USER' })
  const lacks = [
    ...(unenforceable.length > 0 ? [`enforce ${unenforceable.join(', ')} with`] : []),
    ...(host.cgroups?.roots.freezer === undefined ? ['pause a session with'] : []),
  ]
  if (lacks.length > 0) weaker.push({ what: `no cgroup to ${lacks.join(', nor to ')}`, fix: delegationFix(host) })
  return {
    available: true,
    why: null,
    fix: null,
    detail: version,
    unenforceable,
    unenforceableFix: delegationFix(host),
    weaker,
    kernel: host.kind === 'runsc' ? 'own' : 'shared',
  }
}

function delegationFix(host: Host): string {
  if (!host.rootless) return 'mount the cpu, memory and pids controllers writable at /sys/fs/cgroup'
  if (!existsSync('/sys/fs/cgroup/cgroup.controllers'))
    return `boot with systemd.unified_cgroup_hierarchy=1 and run the daemon ${AS_USER_SERVICE}; or run it as root`
  // The user's own systemd delegates cgroups. It runs while the user is logged in, or always with lingering enabled.
  if (host.cgroups === null)
    return `sudo loginctl enable-linger $USER, and start the daemon again, or run it ${AS_USER_SERVICE}; or run it as root`
  return DELEGATE_ALL
}

function unavailable(why: string, fix: string): HostProbe {
  return { host: null, probe: { available: false, why, fix, detail: '', unenforceable: [], weaker: [], kernel: 'shared' } }
}

async function tryMounts(dataDir: string, launcher: Launcher): Promise<Probed> {
  const folder = join(dataDir, 'run', 'probe')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  try {
    const { probed } = await launcher.run({ probe: { folder } }, AbortSignal.timeout(10_000))
    return probed ?? { mounts: 'no answer', loop: '', idmap: '', overlay: '' }
  } catch (error) {
    if (error instanceof LaunchError) return { mounts: error.message, loop: '', idmap: '', overlay: '' }
    throw error
  }
}

function isOpenFolder(path: string): boolean {
  const info = lstatSync(path, { throwIfNoEntry: false })
  return info?.isDirectory() === true && (info.mode & 0o001) !== 0
}

const CAP_SYS_RESOURCE = 24n

export function mayLimitProcesses(): boolean {
  const effective = readFileSync('/proc/self/status', 'utf8').match(/^CapEff:\s+([0-9a-f]+)$/m)?.[1] ?? '0'
  return ((BigInt(`0x${effective}`) >> CAP_SYS_RESOURCE) & 1n) === 1n
}
