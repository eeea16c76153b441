// POST …/resize: changes the limits of a session, at once if its machine is up, else at its next start.
import { LIVE_STATES, type ResizeRequest, SandglassError, STARTABLE_STATES } from '@sandglass/contract'
import type { Machine, MachineLimits } from '../../backends/backend.ts'
import type { Logger } from '../../log.ts'
import type { SessionContext } from '../context.ts'
import { getSession } from '../live.ts'
import { patchRecord, type ResizableLimits, type SessionRecord } from '../session-record.ts'
import { refuseAboveCeiling } from './ceilings.ts'

const MiB = 1024 * 1024

export async function resizeSession(
  context: SessionContext,
  ref: string,
  wanted: ResizeRequest,
  log: Logger,
): Promise<SessionRecord> {
  refuseAboveCeiling(context.config, wanted)
  const { id } = await getSession(context, ref)
  return context.mutex.run(id, async () => {
    const record = await getSession(context, id)
    const limits = { ...limitsOf(record), ...wanted }
    if (LIVE_STATES.includes(record.status)) await resizeMachine(context, record, limits, log)
    else if (STARTABLE_STATES.includes(record.status)) await patchRecord(context.store, id, limits)
    else throw new SandglassError('WRONG_STATE', { id, name: record.name, state: record.status, event: 'resize' })
    log.info({ sessionId: id, from: limitsOf(record), to: limits }, 'session resized')
    const live = context.live.get(id)
    if (live) live.record = { ...live.record, ...limits }
    return getSession(context, id)
  })
}

/**
 * The wanted limits are stored as `resizing` before the machine is changed, and become the session's limits once the machine has them. If the
 * daemon dies in between, reconcile finishes the change.
 */
async function resizeMachine(
  context: SessionContext,
  record: SessionRecord,
  limits: ResizableLimits,
  log: Logger,
): Promise<void> {
  const machine = context.live.get(record.id)?.machine
  if (!machine) throw new SandglassError('RUNNER_LOST', { id: record.id })
  const { resize } = machine
  if (!resize)
    throw new SandglassError('UNSUPPORTED', {
      what: `resize of a session that runs on ${record.backend}`,
      next: `\`sandglass stop ${record.name}\`, resize it, and start it again`,
    })
  if (limits.memory_mb < record.memory_mb) await refuseBelowUse(machine, record.name, limits.memory_mb)
  await patchRecord(context.store, record.id, { resizing: limits })
  try {
    await resize(machineLimits(limits))
  } catch (error) {
    await undo(context, record, resize, log)
    throw error instanceof SandglassError ? error : failed(record, error)
  }
  await patchRecord(context.store, record.id, { ...limits, resizing: null })
}

/** If this fails, `resizing` stays stored, and reconcile finishes the change. */
async function undo(
  context: SessionContext,
  record: SessionRecord,
  resize: NonNullable<Machine['resize']>,
  log: Logger,
): Promise<void> {
  try {
    await resize(machineLimits(record))
    await patchRecord(context.store, record.id, { resizing: null })
  } catch (err) {
    log.error({ err, sessionId: record.id }, 'limits of a session could not be restored after a failed resize')
  }
}

async function refuseBelowUse(machine: Machine, name: string, memory_mb: number): Promise<void> {
  const used_mb = Math.ceil((await machine.stats()).memoryBytes / MiB)
  if (used_mb >= memory_mb) throw new SandglassError('MEMORY_IN_USE', { name, used_mb, memory_mb })
}

/**
 * For reconcile: finishes a resize that the end of the daemon interrupted, or undoes it if the machine refuses the limits. If neither works,
 * `resizing` stays stored, and the session goes on.
 */
export async function finishResize(
  context: SessionContext,
  record: SessionRecord,
  machine: Machine | undefined,
): Promise<SessionRecord> {
  if (record.resizing === null) return record
  const wanted = record.resizing
  try {
    const limits = machine?.resize
      ? await firstAccepted(context, record.id, machine.resize, [wanted, limitsOf(record)])
      : limitsOf(record)
    await patchRecord(context.store, record.id, { ...limits, resizing: null })
    context.log.info({ sessionId: record.id, limits }, 'interrupted resize finished or undone')
    return { ...record, ...limits, resizing: null }
  } catch (err) {
    context.log.error({ err, sessionId: record.id }, 'interrupted resize could be neither finished nor undone')
    return record
  }
}

async function firstAccepted(
  context: SessionContext,
  id: string,
  resize: NonNullable<Machine['resize']>,
  [wanted, before]: [ResizableLimits, ResizableLimits],
): Promise<ResizableLimits> {
  try {
    await resize(machineLimits(wanted))
    return wanted
  } catch (err) {
    context.log.warn({ err, sessionId: id }, 'interrupted resize could not be finished; undoing it')
    await resize(machineLimits(before))
    return before
  }
}

const failed = ({ name }: SessionRecord, error: unknown) =>
  new SandglassError('RESIZE_FAILED', { name, why: (error as Error).message }, { cause: error })

const limitsOf = ({ cpu_cores, memory_mb, pids_limit }: SessionRecord): ResizableLimits => ({ cpu_cores, memory_mb, pids_limit })

const machineLimits = ({ cpu_cores, memory_mb, pids_limit }: ResizableLimits): MachineLimits => ({
  cpuCores: cpu_cores,
  memoryMb: memory_mb,
  pidsLimit: pids_limit,
})
