// The layout of cgroup v1 (also beside a unified mount) and v2 as data: where the cgroups of a machine are, and what is written to them.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { LimitKind } from '../backend.ts'
import { RUNNER_THREADS } from '../machine/runner-config.ts'

/** How cgroups are mounted on this host. `roots` maps a controller to the directory in which this daemon creates cgroups. */
export interface CgroupLayout {
  readonly version: 1 | 2
  readonly roots: Readonly<Partial<Record<Controller, string>>>
  /** Mounts of hierarchies without our limits, in which a runtime may leave folders. */
  readonly others: readonly string[]
  /** The path of the roots in /proc/<pid>/cgroup: '' at the top. */
  readonly prefix: string
  /** The daemon's own cgroup below a root: '' at the top. */
  readonly daemon: string
  /** The unified mount of a hybrid host. */
  readonly unified: string | null
  /** Whether the kernel counts swap, so that it can be limited to zero. */
  readonly countsSwap: boolean
}

export const CONTROLLERS = ['cpu', 'cpuacct', 'memory', 'pids', 'freezer', 'devices'] as const
export type Controller = (typeof CONTROLLERS)[number]

/** One cgroup directory, as the launcher takes it. */
export interface Group {
  readonly dir: string
  readonly name: string
  readonly settings: readonly Setting[]
  readonly thaw?: Setting
  /** The allowed devices, in the format of devices.list (v1 only). */
  readonly devices?: readonly string[]
  /** Controllers to enable for this cgroup in its parent, in the format of cgroup.subtree_control (v2 only). */
  readonly enable?: string
  readonly join: boolean
}
interface Setting {
  readonly file: string
  readonly value: string
}

export interface Limits {
  readonly cpuCores: number
  readonly memoryMb: number
  readonly pidsLimit: number
}

/** Random names, which launchers choose for the cgroups of one machine. */
export const GROUP_NAME = /^[0-9a-f]{16}$/
/** The cgroup inside the machine's that is created by a runtime which manages cgroups itself. */
export const RUNTIME_GROUP = 'machine'
const CPU_PERIOD_USEC = 100_000
/**
 * SECURITY: a sandbox cannot create device files, and has only these: null, zero, full, random, urandom, tty, ptmx and terminals. The cgroup is a
 * second barrier for the same rule.
 */
const DEVICES = ['1:3', '1:5', '1:7', '1:8', '1:9', '5:0', '5:2', '136:*'].map(numbers => `c ${numbers} rw`)

/** Reads the layout from /proc/self/mountinfo; null where no cgroup filesystem is mounted. */
export function readLayout(mountinfo: string, exists: (path: string) => boolean): CgroupLayout | null {
  const roots: Partial<Record<Controller, string>> = {}
  const others: string[] = []
  let unified: string | null = null
  for (const line of mountinfo.split('\n')) {
    const [left = '', right = ''] = line.split(' - ')
    const mountPoint = left.split(' ')[4]
    const [type, , options = ''] = right.split(' ')
    if (mountPoint === undefined) continue
    if (type === 'cgroup2') unified = mountPoint
    if (type !== 'cgroup') continue
    const here = CONTROLLERS.filter(controller => options.split(',').includes(controller))
    for (const controller of here) roots[controller] = mountPoint
    if (here.length === 0) others.push(mountPoint)
  }
  if (Object.keys(roots).length > 0) {
    const countsSwap = exists(`${roots.memory}/memory.memsw.limit_in_bytes`)
    return {
      version: 1,
      roots,
      others: unified === null ? others : [...others, unified],
      prefix: '',
      daemon: '',
      unified,
      countsSwap,
    }
  }
  if (unified === null) return null
  return {
    version: 2,
    roots: unifiedRoots(unified),
    others,
    prefix: '',
    daemon: '',
    unified: null,
    countsSwap: exists('/proc/swaps'),
  }
}

/** On v2 every controller is in the one directory. */
export function unifiedRoots(dir: string): Record<Controller, string> {
  return { cpu: dir, cpuacct: dir, memory: dir, pids: dir, freezer: dir, devices: dir }
}

/** Limits that cannot be enforced because their controller is not mounted. */
export function missingControllers(layout: CgroupLayout | null): LimitKind[] {
  return (['cpu', 'memory', 'pids'] as const).filter(kind => layout?.roots[kind] === undefined)
}

/** Name of the parent of all cgroups of a daemon. It depends on the data folder, so that two daemons never use the same one. */
export function parentName(dataDir: string): string {
  return `sandglass-${createHash('sha256').update(dataDir).digest('hex').slice(0, 8)}`
}

/** All cgroups that a machine may have in any hierarchy, for its removal. */
export function leftGroups(layout: CgroupLayout, parent: string, group: string): Group[] {
  const others = layout.others.map(root => ({
    dir: join(root, parent, group),
    name: `/${parent}/${group}`,
    settings: [],
    join: false,
  }))
  return [...groupsOf(layout, parent, group, null, false), ...others]
}

/** The cgroup.procs files with which a launcher that gives up moves back to the daemon's cgroups. */
export function daemonCgroupFiles(layout: CgroupLayout): string[] {
  return [...new Set(Object.values(layout.roots))].map(root => join(root, layout.daemon, 'cgroup.procs'))
}

/** The mount points of all hierarchies. */
export function mountsOf(layout: CgroupLayout): string[] {
  return [...new Set([...Object.values(layout.roots), ...layout.others])]
}

/** The cgroups of one machine, one per mounted hierarchy. `enter`: the launcher moves itself into them. */
export function groupsOf(layout: CgroupLayout, parent: string, group: string, limits: Limits | null, enter: boolean): Group[] {
  // SECURITY: an empty or foreign name would be the cgroup of many machines, and everything in it is killed when the machine ends.
  if (!GROUP_NAME.test(group)) throw new RangeError(`not the name of a machine's cgroup: ${JSON.stringify(group)}`)
  const groups = new Map<string, { controllers: Set<Controller>; root: string }>()
  for (const controller of CONTROLLERS) {
    const root = layout.roots[controller]
    if (root === undefined) continue
    const known = groups.get(root) ?? { controllers: new Set(), root }
    known.controllers.add(controller)
    groups.set(root, known)
  }
  const table = layout.version === 1 ? V1 : V2
  return [...groups.values()].map(({ controllers, root }) => ({
    dir: join(root, parent, group),
    name: `${layout.prefix}/${parent}/${group}`,
    settings:
      limits === null ? [] : [...controllers].flatMap(controller => table.settings(controller, limits, layout.countsSwap)),
    ...(controllers.has('freezer') ? { thaw: table.thaw } : {}),
    // A runtime that creates its own cgroup limits devices there.
    ...(layout.version === 1 && enter && limits !== null && controllers.has('devices') ? { devices: DEVICES } : {}),
    ...(layout.version === 2 ? { enable: enabling(controllers) } : {}),
    join: enter,
  }))
}

/** The text that enables controllers in cgroup.subtree_control. */
export function enabling(controllers: Iterable<Controller>): string {
  return [...controllers]
    .filter(name => name === 'cpu' || name === 'memory' || name === 'pids')
    .map(name => `+${name}`)
    .join(' ')
}

const quota = (limits: Limits) => String(Math.round(limits.cpuCores * CPU_PERIOD_USEC))
const memory = (limits: Limits) => String(limits.memoryMb * 1024 * 1024)

const V1 = {
  thaw: { file: 'freezer.state', value: 'THAWED' },
  settings(controller: Controller, limits: Limits, countsSwap: boolean): Setting[] {
    if (controller === 'cpu')
      return [
        { file: 'cpu.cfs_period_us', value: String(CPU_PERIOD_USEC) },
        { file: 'cpu.cfs_quota_us', value: quota(limits) },
      ]
    if (controller === 'memory')
      return [
        { file: 'memory.limit_in_bytes', value: memory(limits) },
        // This is the limit of memory and swap together: the same number leaves nothing for swap.
        ...(countsSwap ? [{ file: 'memory.memsw.limit_in_bytes', value: memory(limits) }] : []),
      ]
    return controller === 'pids' ? [{ file: 'pids.max', value: String(limits.pidsLimit + RUNNER_THREADS) }] : []
  },
}

const V2 = {
  thaw: { file: 'cgroup.freeze', value: '0' },
  settings(controller: Controller, limits: Limits, countsSwap: boolean): Setting[] {
    if (controller === 'cpu') return [{ file: 'cpu.max', value: `${quota(limits)} ${CPU_PERIOD_USEC}` }]
    if (controller === 'memory')
      return [{ file: 'memory.max', value: memory(limits) }, ...(countsSwap ? [{ file: 'memory.swap.max', value: '0' }] : [])]
    return controller === 'pids' ? [{ file: 'pids.max', value: String(limits.pidsLimit + RUNNER_THREADS) }] : []
  },
}
