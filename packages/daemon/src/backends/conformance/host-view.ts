// What can be seen of a machine from the host.
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

/** The nearest process above `pid` whose command line begins like this; 0 when there is none. */
export function ancestor(pid: number, argv: string): number {
  for (let at = pid; at > 1; at = Number(read(`/proc/${at}/status`).match(/^PPid:\s+(\d+)/m)?.[1] ?? 0)) {
    if (read(`/proc/${at}/cmdline`).startsWith(argv)) return at
  }
  return 0
}

/** What the descriptors of a process lead to. */
export function openFiles(pid: number): string[] {
  return names(`/proc/${pid}/fd`).map(fd => readlinkSync(`/proc/${pid}/fd/${fd}`))
}

/** Everything on this host that still bears the id of a machine. Empty once it is destroyed. */
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
  // Who listens there may have no other sign of it.
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

function pids(): number[] {
  return names('/proc').map(Number).filter(Number.isInteger)
}

function names(dir: string): string[] {
  return readdirSync(dir)
}

/** '' for what is gone or not ours to read: both happen while processes come and go. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error) return ''
    throw error
  }
}
