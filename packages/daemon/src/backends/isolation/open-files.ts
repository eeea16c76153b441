// Open files. The kernel has one pool for the whole host (fs.file-max). The rlimit of each process bounds what a machine can take of it; files that are
// only mapped are not bounded, so the daemon counts them.
import { readFileSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing } from '../../lib/missing-file.ts'

/** No common program needs more. */
const MOST_OPEN_FILES = 65_536
/** Build tools and servers open more than the default of 1024. */
const LEAST_OPEN_FILES = 4096
/** All processes of one machine together get at most a quarter of the pool, unless that is less than the minimum for each. */
const SHARE = 4

/** The limit of each process of a machine with this process limit. */
export function openFileLimit(pidsLimit: number, pool = openFilePool().max): number {
  return Math.min(mostOpenFiles(), Math.max(LEAST_OPEN_FILES, Math.floor(pool / SHARE / pidsLimit)))
}

/** The highest possible limit: a child process cannot exceed the hard limit of the daemon. */
export const mostOpenFiles = () => Math.min(MOST_OPEN_FILES, hardLimit('Max open files'))

const UNLIMITED = 1_048_576

/** A hard limit of this process, by its name in /proc/self/limits. */
export function hardLimit(name: string): number {
  const hard = readFileSync('/proc/self/limits', 'utf8').match(new RegExp(`^${name}\\s+\\S+\\s+(\\S+)`, 'm'))?.[1]
  return hard === undefined || hard === 'unlimited' ? UNLIMITED : Number(hard)
}

/** The pool of the host. Only root may open files beyond `max`. */
export function openFilePool(): { open: number; max: number } {
  const [open, , max] = readFileSync('/proc/sys/fs/file-nr', 'utf8').split('\t').map(Number)
  return { open: open ?? 0, max: max ?? Number.POSITIVE_INFINITY }
}

/** Open files of all processes in a cgroup and below. `withMapped` also counts mapped files, which takes much longer. */
export async function openFilesIn(group: string, withMapped: boolean): Promise<number> {
  const pids = await members(group)
  const counts = await Promise.all(pids.map(async pid => (await openFilesOf(pid)) + (withMapped ? await mappedFilesOf(pid) : 0)))
  return counts.reduce((sum, count) => sum + count, 0)
}

async function members(group: string): Promise<number[]> {
  const [text, entries] = await Promise.all([
    orEmpty(readFile(join(group, 'cgroup.procs'), 'utf8'), ''),
    orEmpty(readdir(group, { withFileTypes: true }), []),
  ])
  const below = entries.filter(entry => entry.isDirectory()).map(entry => members(join(group, entry.name)))
  return [...text.split('\n').filter(Boolean).map(Number), ...(await Promise.all(below)).flat()]
}

/** Since Linux 6.2 the size of the folder is the number of open files. Before, the size of the descriptor table approximates it. */
async function openFilesOf(pid: number): Promise<number> {
  const { size } = await orEmpty(stat(`/proc/${pid}/fd`), { size: 0 })
  if (size > 0) return size
  const status = await orEmpty(readFile(`/proc/${pid}/status`, 'utf8'), '')
  return Number(status.match(/^FDSize:\s+(\d+)$/m)?.[1] ?? 0)
}

/** Each mapping keeps its file open, and a process may have 65,530 mappings. */
async function mappedFilesOf(pid: number): Promise<number> {
  const maps = await orEmpty(readFile(`/proc/${pid}/maps`, 'utf8'), '')
  return maps.match(/^\S+ \S+ \S+ \S+ [1-9]/gm)?.length ?? 0
}

/** A process may end while it is read. */
async function orEmpty<T, E>(found: Promise<T>, empty: E): Promise<T | E> {
  try {
    return await found
  } catch (error) {
    if (isMissing(error) || (error as NodeJS.ErrnoException).code === 'ESRCH') return empty
    throw error
  }
}
