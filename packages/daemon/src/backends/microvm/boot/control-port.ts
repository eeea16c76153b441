// What the daemon says to the first process of a machine. SECURITY: what comes back is the machine's word: it is believed about the machine alone.
import { z } from 'zod'
import type { LimitEvents, MachineStats } from '../../backend.ts'
import { RUNNER_THREADS } from '../../machine/runner-config.ts'
import { connectLines } from '../qemu/json-lines.ts'

const count = z.number().min(0).max(Number.MAX_SAFE_INTEGER)
const Stats = z.object({
  cpu_usage_usec: count,
  memory_bytes: count,
  memory_limit: count,
  memory_peak_bytes: count,
  oom_kills: count,
  pids: count,
  pids_limit: count,
  // A machine that started before they were counted does not tell them.
  pid_refusals: count.nullish(),
  sandbox_pids: count.nullish(),
  sandbox_pids_peak: count.nullish(),
})

const Begun = z.object({ type: z.enum(['started', 'failed']), error: z.string().optional() })

/** Makes the waiting machine a session's. Resolves when its runner serves. */
export async function beginSession(path: string, config: object, signal: AbortSignal): Promise<void> {
  const lines = await connectLines(path)
  try {
    lines.send({ ...config })
    const { type, error } = Begun.parse(
      await lines.next(message => message.type === 'started' || message.type === 'failed', signal),
    )
    if (type === 'failed') throw new Error(error ?? 'the machine did not say why')
  } finally {
    lines.close()
  }
}

export async function readStats(path: string, signal: AbortSignal): Promise<MachineStats> {
  const stats = await askStats(path, signal)
  return {
    cpuUsageUsec: stats.cpu_usage_usec,
    memoryBytes: stats.memory_bytes,
    memoryLimit: stats.memory_limit,
    memoryPeakBytes: stats.memory_peak_bytes,
    oomKills: stats.oom_kills,
    pids: stats.pids,
    pidsLimit: stats.pids_limit - RUNNER_THREADS,
  }
}

export async function readLimitEvents(path: string, signal: AbortSignal): Promise<LimitEvents> {
  const stats = await askStats(path, signal)
  return {
    oomKills: stats.oom_kills,
    pidRefusals: stats.pid_refusals ?? null,
    pids: stats.sandbox_pids ?? null,
    pidsPeak: stats.sandbox_pids_peak ?? null,
  }
}

async function askStats(path: string, signal: AbortSignal): Promise<z.infer<typeof Stats>> {
  const lines = await connectLines(path)
  try {
    const id = Math.random().toString(36).slice(2)
    lines.send({ id, type: 'stats' })
    return Stats.parse(await lines.next(message => message.id === id, signal))
  } finally {
    lines.close()
  }
}

/** Asks for the end: every process is killed, the disk is brought in order, the machine goes off. Does not wait for it. */
export async function askToEnd(path: string): Promise<void> {
  const lines = await connectLines(path)
  lines.send({ type: 'end' })
  lines.finish()
}
