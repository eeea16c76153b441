// cgroup v1 (also beside a unified mount) and v2, as data: where a machine's groups are, what is written there, what is read.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { LimitKind } from '../backend.ts'
import { RUNNER_THREADS } from '../machine/runner-config.ts'

/** How this host shows cgroups. `roots` maps a controller to the directory that this daemon makes groups in. */
export interface CgroupLayout {
  readonly version: 1 | 2
  readonly roots: Readonly<Partial<Record<Controller, string>>>
  /** Mounts of hierarchies that set no limit here, but in which a runtime may leave folders. */
  readonly others: readonly string[]
  /** Where each root is in /proc/<pid>/cgroup: '' at the top. */
  readonly prefix: string
  /** The daemon's own group below a root: '' at the top. */
  readonly daemon: string
  /** The unified mount of a hybrid host. */
  readonly unified: string | null
  /** Whether the kernel counts swap, so that it can be forbidden. */
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
  /** The devices that may be used, as devices.list shows them (v1 only). */
  readonly devices?: readonly string[]
  /** What is switched on for this group in the folder above it (v2 only). */
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

/** Names that launchers make up for the groups of one machine. */
export const GROUP_NAME = /^[0-9a-f]{16}$/
/** The group that a runtime which keeps cgroups itself is told to make inside the machine's. */
export const RUNTIME_GROUP = 'machine'
const CPU_PERIOD_USEC = 100_000
/**
 * SECURITY: a sandbox can make no device file, and what is mounted in it shows none but these: null, zero, full, random, urandom, tty, ptmx and
 * terminals. This is a second lock on the same door.
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

/** Which limits the layout cannot hold, by what is mounted. */
export function missingControllers(layout: CgroupLayout | null): LimitKind[] {
  return (['cpu', 'memory', 'pids'] as const).filter(kind => layout?.roots[kind] === undefined)
}

/** The folder of all of a daemon's groups. Its name differs per data folder: two daemons never touch each other's. */
export function parentName(dataDir: string): string {
  return `sandglass-${createHash('sha256').update(dataDir).digest('hex').slice(0, 8)}`
}

/** Everything of a machine in any hierarchy, to end it. */
export function leftGroups(layout: CgroupLayout, parent: string, group: string): Group[] {
  const others = layout.others.map(root => ({
    dir: join(root, parent, group),
    name: `/${parent}/${group}`,
    settings: [],
    join: false,
  }))
  return [...groupsOf(layout, parent, group, null, false), ...others]
}

/** Where a launcher goes again that entered groups for nothing. */
export function wayHome(layout: CgroupLayout): string[] {
  return [...new Set(Object.values(layout.roots))].map(root => join(root, layout.daemon, 'cgroup.procs'))
}

/** Every mount of a hierarchy. */
export function mountsOf(layout: CgroupLayout): string[] {
  return [...new Set([...Object.values(layout.roots), ...layout.others])]
}

/** The groups of one machine, one per mounted hierarchy. */
export function groupsOf(layout: CgroupLayout, parent: string, group: string, limits: Limits | null, enter: boolean): Group[] {
  // SECURITY: an empty or foreign name would be a folder of many machines, and whatever is in it is killed when it ends.
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
    // A runtime that makes a group of its own limits devices there.
    ...(layout.version === 1 && enter && limits !== null && controllers.has('devices') ? { devices: DEVICES } : {}),
    ...(layout.version === 2 ? { enable: enabling(controllers) } : {}),
    join: enter,
  }))
}

/** The words that switch controllers on in cgroup.subtree_control. */
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
        // Memory and swap together: the same number leaves nothing for swap.
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
