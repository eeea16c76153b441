// The daemon's side of a machine's control port; runner/LAUNCHER.md describes the messages. SECURITY: the machine chooses its answers, so they
// are believed about the machine alone.
import { z } from 'zod'
import type { LimitEvents, MachineStats } from '../../backend.ts'
import { RUNNER_THREADS } from '../../machine/runner-config.ts'
import { connectLines } from '../qemu/json-lines.ts'
import type { GuestConfig } from './guest-config.ts'

/** Messages after the configuration. The guest drops what it does not know. */
export const GuestRequest = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('stats'), id: z.string() }),
  z.strictObject({ type: z.literal('clock'), clock_ms: z.int() }),
  z.strictObject({ type: z.literal('end') }),
])
type GuestRequest = z.infer<typeof GuestRequest>

const count = z.number().min(0).max(Number.MAX_SAFE_INTEGER)
/** Not strict: the machine may have been started by another version. */
export const GuestStats = z.object({
  type: z.literal('stats'),
  id: z.string(),
  cpu_usage_usec: count,
  memory_bytes: count,
  memory_limit: count,
  memory_peak_bytes: count,
  oom_kills: count,
  pids: count,
  pids_limit: count,
  // Machines of earlier versions do not have these.
  pid_refusals: count.nullish(),
  sandbox_pids: count.nullish(),
  sandbox_pids_peak: count.nullish(),
})

/** The answer to the configuration. */
export const GuestStarted = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('started') }),
  z.strictObject({ type: z.literal('failed'), error: z.string() }),
])

/** Configures a waiting machine for a session. Resolves when its runner serves. */
export async function beginSession(path: string, config: GuestConfig, signal: AbortSignal): Promise<void> {
  const lines = await connectLines(path)
  try {
    lines.send({ ...config })
    const answer = GuestStarted.parse(
      await lines.next(message => message.type === 'started' || message.type === 'failed', signal),
    )
    if (answer.type === 'failed') throw new Error(answer.error)
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

async function askStats(path: string, signal: AbortSignal): Promise<z.infer<typeof GuestStats>> {
  const lines = await connectLines(path)
  try {
    const id = Math.random().toString(36).slice(2)
    lines.send({ type: 'stats', id } satisfies GuestRequest)
    return GuestStats.parse(await lines.next(message => message.id === id, signal))
  } finally {
    lines.close()
  }
}

/** Asks the machine to end: it kills every process, syncs the disk and powers off. Does not wait for it. */
export async function askToEnd(path: string): Promise<void> {
  const lines = await connectLines(path)
  lines.send({ type: 'end' } satisfies GuestRequest)
  lines.finish()
}
