// The daemon that has a data folder, found by the pid beside its lock.
import { join } from 'node:path'
import { DATA_FILES } from '@sandglass/contract/tables'
import type { Settings } from './settings.ts'

/** Not imported, to be quick: see table.ts. */
const { readFileSync, statSync } = process.getBuiltinModule('node:fs')

export type RunningDaemon = {
  pid: number
  /** When it took the folder, which is just after it read its configuration. */
  startedAt: number
  isAlive(): boolean
}

export function findDaemon(dataDir: string): RunningDaemon | undefined {
  const path = join(dataDir, DATA_FILES.pid)
  const written = statSync(path, { throwIfNoEntry: false })
  if (written === undefined) return undefined
  const pid = Number(readFileSync(path, 'utf8'))
  const born = Number.isInteger(pid) && pid > 1 ? birthOf(pid) : undefined
  // SECURITY: a pid that was given to another process since is not the daemon: that one is younger than the file, or another program.
  if (born === undefined || born.at > written.mtimeMs + CLOCK_SLACK_MS || !isDaemon(pid)) return undefined
  return { pid, startedAt: written.mtimeMs, isAlive: () => birthOf(pid)?.ticks === born.ticks }
}

/** False when whatever daemon there is has read the file as it is. */
export function mayBeOutdated(settings: Settings): boolean {
  const written = statSync(join(settings.dataDir, DATA_FILES.pid), { throwIfNoEntry: false })
  return written !== undefined && isOutdated({ startedAt: written.mtimeMs }, settings)
}

/** True when the file was changed after the daemon had read it. */
export function isOutdated({ startedAt }: Pick<RunningDaemon, 'startedAt'>, { configPath }: Settings): boolean {
  const file = statSync(configPath, { throwIfNoEntry: false })
  return file !== undefined && Math.max(file.mtimeMs, file.ctimeMs) > startedAt
}

/** The boot time is told in whole seconds, and a process's start in ticks. */
const CLOCK_SLACK_MS = 1100
const TICKS_PER_SECOND = 100

/** Undefined when there is no such process, or only its exit code is left. */
function birthOf(pid: number): { ticks: number; at: number } | undefined {
  const stat = readProc(`${pid}/stat`)
  // The name, in parentheses, may hold anything: fields are counted after it. State is the first, threads the eighteenth, start the twentieth.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
  // Its first thread may end before the last one, which still has the lock.
  if (fields === undefined || (fields[0] === 'Z' && Number(fields[17]) <= 1)) return undefined
  const ticks = Number(fields[19])
  const boot = Number(/^btime (\d+)$/m.exec(readProc('stat') ?? '')?.[1])
  return { ticks, at: (boot + ticks / TICKS_PER_SECOND) * 1000 }
}

const isDaemon = (pid: number) => (readProc(`${pid}/cmdline`) ?? '').split('\0').some(word => /daemon\/.*main\.[tj]s$/.test(word))

function readProc(path: string): string | undefined {
  try {
    return readFileSync(`/proc/${path}`, 'utf8')
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}
