// Finds where this daemon may create cgroups: at the top for root, in a cgroup delegated to the user for anybody else.
import { accessSync, constants, existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { type CgroupLayout, CONTROLLERS, enabling, GROUP_NAME, readLayout, unifiedRoots } from './layout.ts'

/** The cgroup that the daemon moves itself to when it was started in the one in which it creates cgroups. */
const OWN = 'sandglass-daemon'
const ROUNDS = 10

/** The layout that the daemon can use, or null when it cannot create cgroups. Creates and removes a cgroup whose name begins with `trial`. */
export function usableCgroups(isRoot: boolean, trial: string): CgroupLayout | null {
  const layout = readLayout(readFileSync('/proc/self/mountinfo', 'utf8'), existsSync)
  if (layout === null) return null
  try {
    if (layout.version === 2) return unified(layout)
    // A v1 hierarchy cannot be delegated to an ordinary user safely.
    return isRoot && writable(layout, `${trial}-${process.pid}`) ? layout : null
  } catch (error) {
    if (isRefusal(error)) return null
    throw error
  }
}

/** True on a unified host when neither the cgroup of this process nor a parent belongs to its user, so that it cannot create cgroups. */
export function isOutsideOwnCgroups(): boolean {
  const layout = readLayout(readFileSync('/proc/self/mountinfo', 'utf8'), existsSync)
  return layout?.version === 2 && topmostOwn(layout.roots.memory ?? '') === null
}

function writable(layout: CgroupLayout, trial: string): boolean {
  for (const root of new Set(Object.values(layout.roots))) {
    const dir = join(root, trial)
    mkdirSync(dir)
    rmdirSync(dir)
  }
  return true
}

/**
 * Cgroups are created below the topmost cgroup that this user may write to: the root cgroup for root, the service of the user's own systemd for
 * anybody else. There they outlive the unit of the daemon. Inside the unit they would prevent systemd from starting it again: no process can enter a
 * cgroup that has limited ones below it.
 */
function unified(layout: CgroupLayout): CgroupLayout | null {
  const mount = layout.roots.memory ?? ''
  const prefix = topmostOwn(mount)
  if (prefix === null) return null
  const dir = join(mount, prefix)
  // Only the root cgroup may have processes beside limited cgroups, and only it has no type.
  const isRoot = !existsSync(join(dir, 'cgroup.type'))
  if (!isRoot && ownCgroup() === prefix) moveAside(dir)
  const offered = readFileSync(join(dir, 'cgroup.controllers'), 'utf8').trim().split(' ')
  const usable = CONTROLLERS.filter(name => name === 'freezer' || name === 'cpuacct' || offered.includes(name))
  writeFileSync(join(dir, 'cgroup.subtree_control'), enabling(usable))
  const all = unifiedRoots(dir)
  return {
    ...layout,
    prefix: prefix === '/' ? '' : prefix,
    daemon: isRoot ? '' : relative(prefix, ownCgroup()),
    roots: Object.fromEntries(usable.map(name => [name, all[name]])),
    countsSwap: countsSwap(dir),
  }
}

/** The path in /proc/self/cgroup. */
function ownCgroup(): string {
  return readFileSync('/proc/self/cgroup', 'utf8').match(/^0::(.*)$/m)?.[1] ?? '/'
}

function topmostOwn(mount: string): string | null {
  const names = ownCgroup().split('/').filter(Boolean)
  const paths = ['/', ...names.map((_, i) => `/${names.slice(0, i + 1).join('/')}`)]
  const isOwn = (path: string) => ['', 'cgroup.procs', 'cgroup.subtree_control'].every(file => mayWrite(join(mount, path, file)))
  return paths.find(isOwn) ?? null
}

function mayWrite(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false // the answer, not a failure
  }
}

/** A cgroup with processes cannot have limited ones below it, so all processes that were started with the daemon move with it. */
function moveAside(dir: string): void {
  const aside = join(dir, OWN)
  mkdirSync(aside, { recursive: true })
  const here = () =>
    readFileSync(join(dir, 'cgroup.procs'), 'utf8')
      .split('\n')
      .filter(pid => Number(pid) > 0)
  for (let round = 0, pids = here(); pids.length > 0 && round < ROUNDS; round++, pids = here()) {
    for (const pid of pids) move(pid, join(aside, 'cgroup.procs'))
  }
}

function move(pid: string, target: string): void {
  try {
    writeFileSync(target, pid)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error // ESRCH: the process has ended
  }
}

/** The root cgroup has no limit files, so one below it is checked. */
function countsSwap(dir: string): boolean {
  const group = readdirSync(dir, { withFileTypes: true }).find(entry => entry.isDirectory())
  return existsSync(group === undefined ? '/proc/swaps' : join(dir, group.name, 'memory.swap.max'))
}

function isRefusal(error: unknown): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    ['EACCES', 'EPERM', 'EROFS', 'EBUSY', 'ENOENT', 'ENOTEMPTY'].includes(String(error.code))
  )
}

/** Names of cgroups that are not in `known`: those of launchers whose daemon was killed, or of machines whose record is lost. */
export function lostGroups(layout: CgroupLayout, parent: string, known: ReadonlySet<string>): string[] {
  const names = new Set<string>()
  for (const root of new Set([...Object.values(layout.roots), ...layout.others])) {
    const dir = join(root, parent)
    if (!existsSync(dir)) continue
    for (const entry of readdirSync(dir, { withFileTypes: true }))
      if (entry.isDirectory() && GROUP_NAME.test(entry.name) && !known.has(entry.name)) names.add(entry.name)
  }
  return [...names]
}
