// Identifies a process across daemons and reboots: its pid, its start time, and the boot id of the host.
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { isMissing } from '../../lib/missing-file.ts'

export const ProcessState = z.object({ pid: z.int(), start_time: z.int(), boot_id: z.string() })
export type ProcessState = z.infer<typeof ProcessState>

/** False when the process has ended, even if its pid has been reused. */
export function isAlive(state: ProcessState): boolean {
  try {
    if (readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() !== state.boot_id) return false
    const stat = readFileSync(`/proc/${state.pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] !== 'Z' && fields[0] !== 'X' && Number(fields[19]) === state.start_time
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}
