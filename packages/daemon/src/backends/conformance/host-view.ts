// What the host shows about a machine: processes, open files, mounts, loop devices, sockets.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { expect } from 'vitest'
import type { Backend } from '../backend.ts'
import { type Box, type Subject, until } from './subject.ts'

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
  return names(`/proc/${pid}/fd`).flatMap(fd => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${fd}`)]
    } catch (error) {
      // It was closed meanwhile.
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return []
      throw error
    }
  })
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

/** Processes of the host with the id of a machine in their command line that are not the machine. */
const HELPERS = / supervise |^\S*containerd-shim/

/** A random duration, which distinguishes the processes of one check from those of a suite that runs at the same time. */
export function sleepLength(): number {
  return 100_000 + Math.floor(Math.random() * 1e9)
}

/** The host's process for a program that sleeps this long: the program itself, or the one process of a machine with its own kernel. */
export async function seenAs(backend: Backend, subject: Subject, { machine }: Box, length: number): Promise<HostProcess> {
  if (!(await hasOwnKernel(backend, subject))) return await sleeper(length)
  const isMachine = (argv: string) => [machine.id, machine.containerId].some(id => argv.includes(id)) && !HELPERS.test(argv)
  const found = hostProcesses().filter(({ argv }) => isMachine(argv))
  expect(found).toHaveLength(1)
  expect(hostProcesses().some(({ argv }) => argv.trim() === `sleep ${length}`)).toBe(false)
  return found[0] ?? { pid: 0, argv: '', uid: Number.NaN }
}

export async function hasOwnKernel(backend: Backend, subject: Subject): Promise<boolean> {
  return subject.hasOwnKernel ?? (await backend.probe()).kernel === 'own'
}

/** Waits until the shell has executed the program. */
async function sleeper(length: number): Promise<HostProcess> {
  const find = () => hostProcesses().find(({ argv }) => argv.trim() === `sleep ${length}`)
  await until('the program runs', () => find() !== undefined)
  return find() ?? { pid: 0, argv: '', uid: Number.NaN }
}
