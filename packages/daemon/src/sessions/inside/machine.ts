// What the API shows of a session's machine: resource use and boot log. Neither renews the lease.
import { Readable } from 'node:stream'
import type { SessionStats } from '@sandglass/contract'
import type { SessionContext } from '../context.ts'
import { getSession, runningSession } from '../live.ts'
import { query } from './request.ts'
import { parsed, RunnerStats } from './runner-shapes.ts'

/** GET …/stats: what the backend measures, and what the runner counts. */
export async function sessionStats(context: SessionContext, ref: string): Promise<SessionStats> {
  const { machine } = await runningSession(context, ref, 'measure')
  const [machineStats, { message, live }] = await Promise.all([machine.stats(), query(context, ref, 'stats')])
  const { disk_free_bytes: _, disk_free_files: __, ...inside } = parsed(live.record.id, RunnerStats, message)
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

const CARRIAGE_RETURN = 0x0d

/** GET …/logs: what was printed while the machine started. If there is no log: the error of a failed session, else nothing. */
export async function bootLog(context: SessionContext, ref: string): Promise<Readable> {
  const { id, backend, status, error_message } = await getSession(context, ref)
  const log = await context.backends.get(backend)?.bootLog(id)
  if (log) return Readable.from(withoutReturns(log))
  return Readable.from(status === 'failed' && error_message !== null ? [Buffer.from(`${error_message}\n`)] : [])
}

/** A console ends its lines with \r\n. */
async function* withoutReturns(log: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const chunk of log) yield Buffer.from(chunk.filter(byte => byte !== CARRIAGE_RETURN))
}
