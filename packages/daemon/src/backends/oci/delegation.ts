// Makes the cgroup folders that this daemon may use, where it may: at the top as root, below its own cgroup for anybody else.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { type CgroupLayout, CONTROLLERS, enabling, GROUP_NAME, readLayout, unifiedRoots } from './cgroups.ts'

const OWN = 'sandglass-daemon'

/** The usable layout, or null with nothing to enforce limits with. */
export function usableCgroups(isRoot: boolean, trial: string): CgroupLayout | null {
  const layout = readLayout(readFileSync('/proc/self/mountinfo', 'utf8'), existsSync)
  if (layout === null) return null
  try {
    if (layout.version === 2) return isRoot ? atTheTop(layout) : delegated(layout)
    // On v1 a hierarchy cannot be handed to an ordinary user safely.
    return isRoot && writable(layout, trial) ? layout : null
  } catch (error) {
    if (isRefusal(error)) return null
    throw error
  }
}

function writable(layout: CgroupLayout, trial: string): boolean {
  for (const root of new Set(Object.values(layout.roots))) {
    const dir = join(root, trial)
    if (existsSync(dir)) continue
    mkdirSync(dir)
    rmdirSync(dir)
  }
  return true
}

function atTheTop(layout: CgroupLayout): CgroupLayout {
  const top = layout.roots.memory ?? ''
  return withControllers(layout, top, '')
}

/** The cgroup that this process is in, if it was handed over. A group with processes cannot have limited ones below it, so the daemon moves aside. */
function delegated(layout: CgroupLayout): CgroupLayout {
  const top = layout.roots.memory ?? ''
  const path = readFileSync('/proc/self/cgroup', 'utf8').match(/^0::(.*)$/m)?.[1] ?? '/'
  const prefix = basename(path) === OWN ? dirname(path) : path
  const own = join(top, prefix)
  mkdirSync(join(own, OWN), { recursive: true })
  writeFileSync(join(own, OWN, 'cgroup.procs'), String(process.pid))
  return { ...withControllers(layout, own, prefix === '/' ? '' : prefix), daemon: OWN }
}

function withControllers(layout: CgroupLayout, dir: string, prefix: string): CgroupLayout {
  const offered = readFileSync(join(dir, 'cgroup.controllers'), 'utf8').trim().split(' ')
  const usable = CONTROLLERS.filter(name => name === 'freezer' || name === 'cpuacct' || offered.includes(name))
  writeFileSync(join(dir, 'cgroup.subtree_control'), enabling(usable))
  const all = unifiedRoots(dir)
  return { ...layout, prefix, roots: Object.fromEntries(usable.map(name => [name, all[name]])) }
}

function isRefusal(error: unknown): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    ['EACCES', 'EPERM', 'EROFS', 'EBUSY', 'ENOENT', 'ENOTEMPTY'].includes(String(error.code))
  )
}

/** Names of groups that belong to no machine that is known: of launchers whose daemon was killed, or of machines whose record is lost. */
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
