// Finds the daemon that uses a data folder, by the pid file beside its lock.
import { join } from 'node:path'
import { DATA_FILES, SandglassError } from '@sandglass/contract/tables'
import type { Context } from '../command.ts'
import type { Settings } from './settings.ts'

/** Not imported, since an import is slower: see output/table.ts. */
const { readFileSync, statSync } = process.getBuiltinModule('node:fs')

export type RunningDaemon = {
  pid: number
  /** When it locked the folder, which is just after it read its configuration. */
  startedAt: number
  isAlive(): boolean
}

export function findDaemon(dataDir: string): RunningDaemon | undefined {
  const path = join(dataDir, DATA_FILES.pid)
  const written = statSync(path, { throwIfNoEntry: false })
  if (written === undefined) return undefined
  const pid = Number(readFileSync(path, 'utf8'))
  const started = Number.isInteger(pid) && pid > 1 ? startOf(pid) : undefined
  // SECURITY: another process may have the pid by now. It is not the daemon if it is younger than the file or another program.
  if (started === undefined || started.at > written.mtimeMs + CLOCK_SLACK_MS || !isDaemon(pid)) return undefined
  return { pid, startedAt: written.mtimeMs, isAlive: () => startOf(pid)?.ticks === started.ticks }
}

/** Prints a note if the configuration file was changed after the daemon read it, which may be why the daemon refused something. */
export async function noteOutdated({ env, settings, say }: Context): Promise<void> {
  if (env.SANDGLASS_URL) return
  const found = await settings()
  // Finding the daemon takes longer than this check, and is seldom needed.
  if (!mayBeOutdated(found)) return
  const daemon = findDaemon(found.dataDir)
  if (daemon && isOutdated(daemon, found))
    say(`note: ${found.configPath} was changed after the daemon started: \`sandglass shutdown\` makes the next command use it\n`)
}

/** Only errors that the daemon answered with have a request id. */
export const isFromDaemon = (error: unknown): boolean => error instanceof SandglassError && error.requestId !== undefined

/** False if no daemon can have read an older file. */
function mayBeOutdated(settings: Settings): boolean {
  const written = statSync(join(settings.dataDir, DATA_FILES.pid), { throwIfNoEntry: false })
  return written !== undefined && isOutdated({ startedAt: written.mtimeMs }, settings)
}

/** True if the configuration file was changed after the daemon read it. */
export function isOutdated({ startedAt }: Pick<RunningDaemon, 'startedAt'>, { configPath }: Settings): boolean {
  const file = statSync(configPath, { throwIfNoEntry: false })
  return file !== undefined && Math.max(file.mtimeMs, file.ctimeMs) > startedAt
}

/** The kernel gives the boot time in whole seconds, and the start of a process in ticks. */
const CLOCK_SLACK_MS = 1100
const TICKS_PER_SECOND = 100

/** When a process started; undefined if it does not exist or is a zombie. */
function startOf(pid: number): { ticks: number; at: number } | undefined {
  const stat = readProc(`${pid}/stat`)
  // The name, in parentheses, may contain anything, so fields are counted after it: 1 is the state, 18 the threads, 20 the start.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
  // The first thread may end before the last one, which still holds the lock.
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
