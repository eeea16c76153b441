// Waiting for processes to end, and finding those of a machine.
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { isMissing } from '../../../lib/missing-file.ts'
import { isAlive, type ProcessState } from '../../machine/process-state.ts'

const POLL_MS = 2

/** Kills and waits until it is gone. */
export async function end(state: ProcessState, deadlineMs: number): Promise<void> {
  const deadline = Date.now() + deadlineMs
  while (isAlive(state)) {
    kill(state.pid)
    if (Date.now() > deadline) throw new Error(`process ${state.pid} does not end`)
    await delay(POLL_MS)
  }
}

/** Resolves with whether it was gone in time. */
export async function gone(state: ProcessState, deadlineMs: number): Promise<boolean> {
  const deadline = Date.now() + deadlineMs
  while (isAlive(state)) {
    if (Date.now() > deadline) return false
    await delay(POLL_MS)
  }
  return true
}

/**
 * Processes that bear a machine's id as a word of their command line: QEMU and its keeper do. What a start that was cut short has left is
 * found like this when no file tells of it.
 */
export function bearers(id: string): ProcessState[] {
  const boot_id = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name) && words(name).includes(id) && isOurs(words(name)))
    .flatMap(name => {
      const start_time = startTime(name)
      return start_time === null ? [] : [{ pid: Number(name), start_time, boot_id }]
    })
}

/** Who any process of this host runs as. */
export function usersWithProcesses(): Set<number> {
  const pids = readdirSync('/proc').filter(name => /^\d+$/.test(name))
  return new Set(pids.map(pid => Number(/^Uid:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1])))
}

const isOurs = (argv: string[]) => (argv[1] === 'launch' && argv[2] === 'vm') || argv.includes('-nodefaults')

function words(pid: string): string[] {
  return read(`/proc/${pid}/cmdline`).split('\0')
}

function startTime(pid: string): number | null {
  const stat = read(`/proc/${pid}/stat`)
  return stat === '' ? null : Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19])
}

/** '' for what is gone or not ours to read. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (isMissing(error) || (error instanceof Error && 'code' in error && error.code === 'EACCES')) return ''
    throw error
  }
}

export function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}
