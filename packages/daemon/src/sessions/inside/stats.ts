// GET …/stats: what the machine uses, and what the runner knows. Watching a session does not keep it alive.
import type { SessionStats } from '@sandglass/contract'
import type { SessionContext } from '../context.ts'
import { runningSession } from '../live.ts'
import { look } from './ask.ts'
import { parsed, RunnerStats } from './runner-shapes.ts'

export async function sessionStats(context: SessionContext, ref: string): Promise<SessionStats> {
  const { machine } = await runningSession(context, ref, 'measure')
  const [machineStats, { message, live }] = await Promise.all([machine.stats(), look(context, ref, 'stats')])
  const { disk_free_bytes: _, disk_free_files: __, ...inside } = parsed(live.row.id, RunnerStats, message)
  return {
    cpu_usage_usec: machineStats.cpuUsageUsec,
    memory_bytes: machineStats.memoryBytes,
    memory_limit: machineStats.memoryLimit,
    memory_peak_bytes: machineStats.memoryPeakBytes,
    oom_kills: machineStats.oomKills,
    pids: machineStats.pids,
    pids_limit: machineStats.pidsLimit,
    ...inside,
  }
}
