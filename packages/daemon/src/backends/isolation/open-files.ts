// Open files, of which the kernel has one pool for the whole host (fs.file-max). A process's own limit bounds what one machine can take of it;
// what that does not bound, as files that are only mapped, is counted here for the daemon's watch.
import { readFileSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing } from '../../lib/missing-file.ts'

/** As much as any program asks for. */
const MOST_OPEN_FILES = 65_536
/** Build tools and servers open more than the usual 1024. */
const LEAST_OPEN_FILES = 4096
/** All processes of one machine together get no more than this part of the pool, if each can still have the least. */
const SHARE = 4

/** The limit of each process of a machine that may have so many. */
export function openFileLimit(pidsLimit: number, pool = openFilePool().max): number {
  return Math.min(mostOpenFiles(), Math.max(LEAST_OPEN_FILES, Math.floor(pool / SHARE / pidsLimit)))
}

/** The most that any process may have: what this one starts cannot pass this one's own limit. */
export const mostOpenFiles = () => Math.min(MOST_OPEN_FILES, hardLimit('Max open files'))

const UNLIMITED = 1_048_576

/** This process's own, as /proc names it. */
export function hardLimit(name: string): number {
  const hard = readFileSync('/proc/self/limits', 'utf8').match(new RegExp(`^${name}\\s+\\S+\\s+(\\S+)`, 'm'))?.[1]
  return hard === undefined || hard === 'unlimited' ? UNLIMITED : Number(hard)
}

/** Of the host. Root may open files beyond `max`; nobody else can. */
export function openFilePool(): { open: number; max: number } {
  const [open, , max] = readFileSync('/proc/sys/fs/file-nr', 'utf8').split('\t').map(Number)
  return { open: open ?? 0, max: max ?? Number.POSITIVE_INFINITY }
}

/** Of all processes in a cgroup and those below it. `withMapped` also counts files that are mapped, open or not, and reads far more. */
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

/** The size of the folder is the number of its files since Linux 6.2; before, the size of the process's table is near it. */
async function openFilesOf(pid: number): Promise<number> {
  const { size } = await orEmpty(stat(`/proc/${pid}/fd`), { size: 0 })
  if (size > 0) return size
  const status = await orEmpty(readFile(`/proc/${pid}/status`, 'utf8'), '')
  return Number(status.match(/^FDSize:\s+(\d+)$/m)?.[1] ?? 0)
}

/** Each mapping of a file holds it, and a process may have 65,530. */
async function mappedFilesOf(pid: number): Promise<number> {
  const maps = await orEmpty(readFile(`/proc/${pid}/maps`, 'utf8'), '')
  return maps.match(/^\S+ \S+ \S+ \S+ [1-9]/gm)?.length ?? 0
}

/** A process may end while it is looked at. */
async function orEmpty<T, E>(found: Promise<T>, empty: E): Promise<T | E> {
  try {
    return await found
  } catch (error) {
    if (isMissing(error) || (error as NodeJS.ErrnoException).code === 'ESRCH') return empty
    throw error
  }
}
