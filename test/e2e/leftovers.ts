// What a session could leave on the host. Taken before and after, two inventories must be equal.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

export type Leftovers = { processes: string[]; mounts: string[]; loops: string[]; cgroups: string[]; folders: string[] }

/** True once neither a process, a mount, a loop device nor a cgroup names the folder of a daemon that has ended. */
export function isGone(dataDir: string): boolean {
  const isNamed = (path: string) => read(path).includes(dataDir)
  const pids = readdirSync('/proc').filter(name => /^\d+$/.test(name))
  const devices = entries('/sys/block').map(name => `/sys/block/${name}/loop/backing_file`)
  const groups = entries('/sys/fs/cgroup').flatMap(name => entries(join('/sys/fs/cgroup', name)))
  const named = [...pids.map(pid => `/proc/${pid}/cmdline`), '/proc/mounts', ...devices].some(isNamed)
  return !named && !groups.includes(cgroupParent(dataDir))
}

/** Everything on this host that belongs to sessions under `dataDir`. */
export function leftovers(dataDir: string): Leftovers {
  return {
    processes: processes(dataDir),
    mounts: mounts(dataDir),
    loops: loops(dataDir),
    cgroups: cgroups(dataDir),
    folders: folders(dataDir),
  }
}

/** Programs in the cgroups of this daemon's machines, and any that names the folder, but for the daemon and its launchers, which wait with a runtime each. */
function processes(dataDir: string): string[] {
  const found: string[] = []
  for (const pid of readdirSync('/proc').filter(name => /^\d+$/.test(name))) {
    const text = read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()
    const isOurs = text.includes(dataDir) || read(`/proc/${pid}/cgroup`).includes(`/${cgroupParent(dataDir)}/`)
    const isWaiting = /\/launcher oci$/.test(text) || text.includes(join(dataDir, 'run/runtime/bundle'))
    if (isOurs && !text.includes(' serve ') && !isWaiting) found.push(text)
  }
  return found
}

/** The backend's name for the cgroups of one data folder. */
const cgroupParent = (dataDir: string) => `sandglass-${createHash('sha256').update(dataDir).digest('hex').slice(0, 8)}`

const mounts = (dataDir: string) =>
  read('/proc/mounts')
    .split('\n')
    .filter(line => line.includes(dataDir))

/** Loop devices of sessions; the empty disk that a waiting launcher has mounted is nobody's yet. */
function loops(dataDir: string): string[] {
  return entries('/sys/block')
    .filter(name => name.startsWith('loop'))
    .map(name => read(`/sys/block/${name}/loop/backing_file`).trim())
    .filter(file => file.startsWith(join(dataDir, 'sessions')))
}

/** Cgroups with something in them other than a waiting launcher, or with nothing at all. */
function cgroups(dataDir: string): string[] {
  const roots = ['/sys/fs/cgroup', ...entries('/sys/fs/cgroup').map(name => join('/sys/fs/cgroup', name))]
  const groups = roots.flatMap(root =>
    entries(join(root, cgroupParent(dataDir))).map(name => join(root, cgroupParent(dataDir), name)),
  )
  return groups.filter(path => statSync(path, { throwIfNoEntry: false })?.isDirectory() && !holdsLauncher(path))
}

const holdsLauncher = (group: string) =>
  read(join(group, 'cgroup.procs'))
    .split('\n')
    .some(pid => pid && read(`/proc/${pid}/cmdline`).includes('launch'))

const folders = (dataDir: string) => [
  ...entries(join(dataDir, 'sessions')),
  ...entries(join(dataDir, 'run')).filter(name => name.startsWith('sess_')),
]

/** A process or device may go while it is looked at: that is the same as not being there. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

function entries(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}
