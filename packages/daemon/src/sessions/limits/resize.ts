// POST …/resize: other limits for a session, which a machine that runs takes at once and any other at its next start.
import { type ResizeRequest, SandglassError } from '@sandglass/contract'
import type { Machine, MachineLimits } from '../../backends/backend.ts'
import type { Logger } from '../../log.ts'
import { patchSession } from '../../store/sessions.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import { getSession } from '../get.ts'
import { refuseAboveCeiling } from './ceilings.ts'

type Limits = Pick<SessionRow, 'cpu_cores' | 'memory_mb' | 'pids_limit'>
const MiB = 1024 * 1024

export async function resizeSession(
  context: SessionContext,
  ref: string,
  wanted: ResizeRequest,
  log: Logger,
): Promise<SessionRow> {
  refuseAboveCeiling(context.config, wanted)
  const { id } = await getSession(context, ref)
  return context.mutex.run(id, async () => {
    const row = await getSession(context, id)
    const limits = { ...limitsOf(row), ...wanted }
    if (row.status === 'running' || row.status === 'paused') await resizeMachine(context, row, limits, log)
    else if (row.status === 'stopped' || row.status === 'failed') await patchSession(context.store, id, limits)
    else throw new SandglassError('WRONG_STATE', { id, name: row.name, state: row.status, event: 'resize' })
    log.info({ sessionId: id, from: limitsOf(row), to: limits }, 'session resized')
    const live = context.live.get(id)
    if (live) live.row = { ...live.row, ...limits }
    return getSession(context, id)
  })
}

/**
 * The wanted limits are stored before the machine is touched, and become the session's once the machine has them. A daemon that dies in between
 * leaves them stored, and the next one finishes the change.
 */
async function resizeMachine(context: SessionContext, row: SessionRow, limits: Limits, log: Logger): Promise<void> {
  const machine = context.live.get(row.id)?.machine
  if (!machine) throw new SandglassError('RUNNER_LOST', { id: row.id })
  const { resize } = machine
  if (!resize)
    throw new SandglassError('UNSUPPORTED', {
      what: `resize of a session that runs on ${row.backend}`,
      next: `\`sandglass stop ${row.name}\`, resize it, and start it again`,
    })
  if (limits.memory_mb < row.memory_mb) await refuseBelowUse(machine, row.name, limits.memory_mb)
  await patchSession(context.store, row.id, { resizing: JSON.stringify(limits) })
  try {
    await resize(machineLimits(limits))
  } catch (error) {
    await undo(context, row, resize, log)
    throw error instanceof SandglassError ? error : failed(row, error)
  }
  await patchSession(context.store, row.id, { ...limits, resizing: null })
}

/** What could not be undone stays stored for the next daemon. */
async function undo(
  context: SessionContext,
  row: SessionRow,
  resize: NonNullable<Machine['resize']>,
  log: Logger,
): Promise<void> {
  try {
    await resize(machineLimits(row))
    await patchSession(context.store, row.id, { resizing: null })
  } catch (err) {
    log.error({ err, sessionId: row.id }, 'limits of a session could not be set back')
  }
}

async function refuseBelowUse(machine: Machine, name: string, memory_mb: number): Promise<void> {
  const used_mb = Math.ceil((await machine.stats()).memoryBytes / MiB)
  if (used_mb >= memory_mb) throw new SandglassError('MEMORY_IN_USE', { name, used_mb, memory_mb })
}

/**
 * After a restart of the daemon: a change that it was in the middle of is finished, or undone where the machine does not take it. Where neither
 * works it stays stored, and the session goes on.
 */
export async function finishResize(context: SessionContext, row: SessionRow, machine: Machine | undefined): Promise<SessionRow> {
  if (row.resizing === null) return row
  const wanted: Limits = JSON.parse(row.resizing)
  try {
    const limits = machine?.resize ? await firstTaken(context, row.id, machine.resize, [wanted, limitsOf(row)]) : limitsOf(row)
    await patchSession(context.store, row.id, { ...limits, resizing: null })
    context.log.info({ sessionId: row.id, limits }, 'interrupted resize settled')
    return { ...row, ...limits, resizing: null }
  } catch (err) {
    context.log.error({ err, sessionId: row.id }, 'interrupted resize could not be settled')
    return row
  }
}

async function firstTaken(
  context: SessionContext,
  id: string,
  resize: NonNullable<Machine['resize']>,
  [wanted, before]: [Limits, Limits],
): Promise<Limits> {
  try {
    await resize(machineLimits(wanted))
    return wanted
  } catch (err) {
    context.log.warn({ err, sessionId: id }, 'interrupted resize is undone')
    await resize(machineLimits(before))
    return before
  }
}

const failed = ({ name }: SessionRow, error: unknown) =>
  new SandglassError('RESIZE_FAILED', { name, why: (error as Error).message }, { cause: error })

const limitsOf = ({ cpu_cores, memory_mb, pids_limit }: SessionRow): Limits => ({ cpu_cores, memory_mb, pids_limit })

const machineLimits = ({ cpu_cores, memory_mb, pids_limit }: Limits): MachineLimits => ({
  cpuCores: cpu_cores,
  memoryMb: memory_mb,
  pidsLimit: pids_limit,
})
