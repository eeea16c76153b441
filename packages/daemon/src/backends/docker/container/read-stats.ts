// What the engine measures of a container.
import type Docker from 'dockerode'
import type { MachineStats } from '../../backend.ts'
import { RUNNER_THREADS } from '../../machine/runner-config.ts'

export async function readStats(container: Docker.Container, oomKills: number | null): Promise<MachineStats> {
  const stats = await container.stats({ stream: false, 'one-shot': true })
  const { cpu_stats: cpu, memory_stats: memory, pids_stats: pids = {} } = stats
  // The page cache can be given back at once: it is not what a program uses.
  const cache = memory.stats?.total_inactive_file ?? memory.stats?.inactive_file ?? 0
  return {
    cpuUsageUsec: Math.floor((cpu.cpu_usage?.total_usage ?? 0) / 1000),
    memoryBytes: Math.max(0, (memory.usage ?? 0) - cache),
    memoryLimit: memory.limit ?? null,
    memoryPeakBytes: memory.max_usage ?? null,
    oomKills,
    pids: pids.current ?? 0,
    pidsLimit: pids.limit === undefined ? null : pids.limit - RUNNER_THREADS,
  }
}
