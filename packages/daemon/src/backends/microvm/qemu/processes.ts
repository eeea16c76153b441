// Kills processes, waits for their exit, and finds the processes of a machine.
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { isMissing } from '../../../lib/missing-file.ts'
import { isAlive, type ProcessState } from '../../machine/process-state.ts'

const POLL_MS = 2

/** Throws if the process still runs at the deadline. */
export async function killAndWait(state: ProcessState, deadlineMs: number): Promise<void> {
  const deadline = Date.now() + deadlineMs
  while (isAlive(state)) {
    kill(state.pid)
    if (Date.now() > deadline) throw new Error(`process ${state.pid} does not exit after SIGKILL`)
    await delay(POLL_MS)
  }
}

/** Resolves with false if the process still runs at the deadline. */
export async function waitForExit(state: ProcessState, deadlineMs: number): Promise<boolean> {
  const deadline = Date.now() + deadlineMs
  while (isAlive(state)) {
    if (Date.now() > deadline) return false
    await delay(POLL_MS)
  }
  return true
}

/**
 * Finds QEMU and its supervisor by the machine's id in their command lines. This also finds the processes of an interrupted start that no file
 * records.
 */
export function processesOf(id: string): ProcessState[] {
  const boot_id = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name) && argv(name).includes(id) && isOurs(argv(name)))
    .flatMap(name => {
      const start_time = startTime(name)
      return start_time === null ? [] : [{ pid: Number(name), start_time, boot_id }]
    })
}

/** User ids of all processes of this host. */
export function usersWithProcesses(): Set<number> {
  const pids = readdirSync('/proc').filter(name => /^\d+$/.test(name))
  return new Set(pids.map(pid => Number(/^Uid:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1])))
}

const isOurs = (argv: string[]) => argv[1] === 'supervise' || argv.includes('-nodefaults')

function argv(pid: string): string[] {
  return read(`/proc/${pid}/cmdline`).split('\0')
}

function startTime(pid: string): number | null {
  const stat = read(`/proc/${pid}/stat`)
  return stat === '' ? null : Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19])
}

/** '' if the process is gone or the file is not readable. */
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
