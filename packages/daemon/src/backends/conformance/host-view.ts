// What can be seen of a machine from the host.
import { readdirSync, readFileSync } from 'node:fs'

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
  return [...found, ...[...mounts].map(line => `mount ${line}`), ...loops.map(file => `loop device ${file}`)]
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
