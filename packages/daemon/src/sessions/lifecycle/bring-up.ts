// Starts the machine of a session and connects to its runner: the work that create and start share.
import { SandglassError } from '@sandglass/contract'
import type { Machine, MachineSpec } from '../../backends/backend.ts'
import type { Logger } from '../../log.ts'
import { openLink } from '../../runner-link/link.ts'
import { touchImage } from '../../store/images.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import { type LimitMemory, newLimitMemory } from '../limits/limit-hits.ts'
import type { LiveSession } from '../live.ts'
import { allowedUnenforced } from '../placement/allowed-limits.ts'
import { backendOf } from '../placement/choose-backend.ts'
import { wishesOfRow } from '../placement/requirements.ts'
import { rootImage } from '../placement/root-image.ts'
import { sessionEnv } from '../show.ts'
import { transition } from './transition.ts'
import { watchMachine } from './watch-machine.ts'

/** Where a fresh main shell begins. */
export const WORKSPACE = '/workspace'

/** The caller has the session's turn and stored it as creating or starting. On failure nothing runs, and the state is the caller's to change. */
export async function bringUp(context: SessionContext, row: SessionRow, log: Logger): Promise<LiveSession> {
  const abort = new AbortController()
  context.starting.set(row.id, abort)
  let machine: Machine | undefined
  try {
    machine = await backendOf(context, row.backend).start(await machineSpec(context, row), abort.signal)
    const live = await adopt(context, row, machine)
    abort.signal.throwIfAborted()
    if (row.image_id !== null) await touchImage(context.store, row.image_id, context.now())
    live.row = await transition(context, row, 'ready', startedOn(machine, context.now()), log)
    return live
  } catch (error) {
    const live = context.live.get(row.id)
    if (live) release(context, live)
    // A disk that was there before this start stays; a create has none to keep.
    await (row.status === 'creating' ? machine?.destroy() : machine?.stop())
    throw error
  } finally {
    context.starting.delete(row.id)
  }
}

/** What the row of a session says once its machine runs. */
export const startedOn = (machine: Machine, now: number) =>
  ({
    reason: 'started',
    container_id: machine.containerId,
    unenforced: JSON.stringify(machine.unenforced),
    started_at: now,
    cwd: WORKSPACE,
  }) as const

/** Connects to a machine that runs and counts it among the live ones. */
export async function adopt(
  context: SessionContext,
  row: SessionRow,
  machine: Machine,
  limits: LimitMemory = newLimitMemory(),
): Promise<LiveSession> {
  const link = openLink(machine)
  try {
    await link.connect()
  } catch (error) {
    link.close()
    throw error
  }
  return enlist(context, { row, machine, link, holds: 0, limits })
}

export function enlist(context: SessionContext, live: LiveSession): LiveSession {
  context.live.add(live)
  watchMachine(context, live)
  return live
}

/** Takes a session from the live ones; its machine is the caller's business. */
export function release(context: SessionContext, live: LiveSession): void {
  context.live.remove(live)
  live.link.close()
}

export async function machineSpec(context: SessionContext, row: SessionRow): Promise<MachineSpec> {
  return {
    id: row.id,
    name: row.name,
    image: await rootImage(context, row),
    cpuCores: row.cpu_cores,
    memoryMb: row.memory_mb,
    diskMb: row.disk_mb,
    pidsLimit: row.pids_limit,
    ...(await wishesOfRow(context, row)),
    persist: row.mode === 'persistent',
    env: sessionEnv(context, row),
    allowUnenforced: allowedUnenforced(context.config, row.backend),
  }
}

/** Failures after which there is nothing to keep: the request could not have worked. */
export const isRefusal = (error: unknown): error is SandglassError =>
  error instanceof SandglassError &&
  ['IMAGE_NOT_FOUND', 'LIMIT_UNENFORCEABLE', 'BACKEND_UNAVAILABLE', 'HOST_FULL', 'UNSUPPORTED'].includes(error.code)

/** With the name that the user knows. */
export function startFailure({ id, name }: SessionRow, error: unknown): SandglassError<'START_FAILED'> {
  const told = error instanceof SandglassError && error.is('START_FAILED') ? error.detail.why : null
  const why = told ?? (error instanceof Error ? error.message : String(error))
  return new SandglassError('START_FAILED', { id, name, why }, { cause: error })
}
