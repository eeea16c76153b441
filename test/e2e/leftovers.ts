// What a session could leave on the host. Taken before and after, two inventories must be equal.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export type Leftovers = { processes: string[]; mounts: string[]; loops: string[]; cgroups: string[]; folders: string[] }

/** Everything on this host that belongs to sessions under `dataDir`. */
export function leftovers(dataDir: string): Leftovers {
  return {
    processes: processes(dataDir),
    mounts: mounts(dataDir),
    loops: loops(dataDir),
    cgroups: cgroups(),
    folders: folders(dataDir),
  }
}

/** Runners in a user namespace other than ours, and any program that names the folder but the daemon itself. */
function processes(dataDir: string): string[] {
  const found: string[] = []
  for (const pid of readdirSync('/proc').filter(name => /^\d+$/.test(name))) {
    const argv = read(`/proc/${pid}/cmdline`).split('\0')
    const text = argv.join(' ').trim()
    if (argv[0] === '/.sandglass/runner' || (text.includes(dataDir) && !text.includes(' serve '))) found.push(text)
  }
  return found
}

const mounts = (dataDir: string) =>
  read('/proc/mounts')
    .split('\n')
    .filter(line => line.includes(dataDir))

function loops(dataDir: string): string[] {
  return entries('/sys/block')
    .filter(name => name.startsWith('loop'))
    .map(name => read(`/sys/block/${name}/loop/backing_file`).trim())
    .filter(file => file.startsWith(dataDir))
}

function cgroups(): string[] {
  const roots = ['/sys/fs/cgroup', ...entries('/sys/fs/cgroup').map(name => join('/sys/fs/cgroup', name))]
  return roots.flatMap(root =>
    entries(root)
      .filter(name => name.startsWith('sandglass-'))
      .flatMap(name =>
        entries(join(root, name))
          .filter(child => child.startsWith('sess_'))
          .map(child => join(root, name, child)),
      ),
  )
}

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
