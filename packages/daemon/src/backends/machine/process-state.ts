// Identifies a process across daemons and reboots: its pid, its start time, and the boot id of the host.
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { isMissing } from '../../lib/missing-file.ts'

export const ProcessState = z.object({ pid: z.int(), start_time: z.int(), boot_id: z.string() })
export type ProcessState = z.infer<typeof ProcessState>

/** Null when the process has ended. */
export function processState(pid: number): ProcessState | null {
  try {
    return { pid, start_time: Number(statFields(pid)[19]), boot_id: bootId() }
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

/** False when the process has ended, even if its pid has been reused. */
export function isAlive(state: ProcessState): boolean {
  try {
    if (bootId() !== state.boot_id) return false
    const fields = statFields(state.pid)
    return fields[0] !== 'Z' && fields[0] !== 'X' && Number(fields[19]) === state.start_time
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

const bootId = () => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()

/** The fields after the name of the program, which may contain spaces. */
function statFields(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}
