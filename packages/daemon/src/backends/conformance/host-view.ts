// What the host shows about a machine: processes, open files, mounts, loop devices, sockets.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

export interface HostProcess {
  readonly pid: number
  readonly argv: string
  readonly uid: number
}

export function hostProcesses(): HostProcess[] {
  return pids().flatMap(pid => {
    const argv = read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ')
    const uid = Number(read(`/proc/${pid}/status`).match(/^Uid:\s+(\d+)/m)?.[1] ?? Number.NaN)
    return argv === '' ? [] : [{ pid, argv, uid }]
  })
}

/** The nearest ancestor of `pid` whose command line begins with `argv`; 0 when there is none. */
export function ancestor(pid: number, argv: string): number {
  for (let at = pid; at > 1; at = parentOf(at)) {
    if (read(`/proc/${at}/cmdline`).startsWith(argv)) return at
  }
  return 0
}

/** The pids of all processes that `pid` has started, directly or not, and that it is still an ancestor of. */
export function descendants(pid: number): number[] {
  const children = pids().filter(child => parentOf(child) === pid)
  return children.flatMap(child => [child, ...descendants(child)])
}

export const isStopped = (pid: number): boolean => /^State:\s+T/m.test(read(`/proc/${pid}/status`))

/** The targets of a process's file descriptors. */
export function openFiles(pid: number): string[] {
  return names(`/proc/${pid}/fd`).map(fd => readlinkSync(`/proc/${pid}/fd/${fd}`))
}

/** Everything on this host whose name contains the id of a machine. Empty once the machine is destroyed. */
export function traces(id: string): string[] {
  const found = hostProcesses()
    .filter(({ argv }) => argv.includes(id))
    .map(({ argv }) => `process ${argv}`)
  const mounts = new Set(
    pids()
      .flatMap(pid => read(`/proc/${pid}/mountinfo`).split('\n'))
      .filter(line => line.includes(id)),
  )
  const loops = names('/sys/block')
    .map(name => read(`/sys/block/${name}/loop/backing_file`))
    .filter(file => file.includes(id))
  // A process that listens on a socket may not have the id in its command line.
  const sockets = read('/proc/net/unix')
    .split('\n')
    .filter(line => line.includes(id))
  return [
    ...found,
    ...[...mounts].map(line => `mount ${line}`),
    ...loops.map(file => `loop device ${file}`),
    ...sockets.map(line => `socket ${line}`),
  ]
}

function parentOf(pid: number): number {
  return Number(read(`/proc/${pid}/status`).match(/^PPid:\s+(\d+)/m)?.[1] ?? 0)
}

function pids(): number[] {
  return names('/proc').map(Number).filter(Number.isInteger)
}

function names(dir: string): string[] {
  return readdirSync(dir)
}

/** '' for a file that is gone or unreadable: both happen while processes start and end. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error) return ''
    throw error
  }
}
