// Starts the machine of a session and connects to its runner: the work that create and start share.
import { SandglassError, WORKSPACE } from '@sandglass/contract'
import { openLink } from '@sandglass/runner-link/link'
import type { Machine } from '../../backends/backend.ts'
import type { Logger } from '../../log.ts'
import { touchImage } from '../../store/images.ts'
import type { SessionContext } from '../context.ts'
import { type LimitBaseline, newLimitBaseline } from '../limits/limit-hits.ts'
import type { LiveSession } from '../live.ts'
import { joinEgress, leaveEgress, usesEgress } from '../network/join-egress.ts'
import { machineSpec, type SessionPlan } from '../placement/plan.ts'
import type { SessionRecord } from '../session-record.ts'
import { transition } from './transition.ts'
import { watchMachine } from './watch-machine.ts'

/**
 * The caller holds the session's mutex and has stored it as creating or starting. On failure no machine is left running, and the caller changes
 * the state.
 */
export async function bringUp(context: SessionContext, plan: SessionPlan, log: Logger): Promise<SessionRecord> {
  const { session, backend } = plan
  const abort = new AbortController()
  context.starting.set(session.id, abort)
  let machine: Machine | undefined
  try {
    prepareEgress(context, session)
    machine = await backend.start(await machineSpec(context, plan), abort.signal)
    const live = await adopt(context, session, machine)
    // Whoever sees the session as running can use its network.
    if (usesEgress(live)) await joinEgress(context, live)
    abort.signal.throwIfAborted()
    if (session.image_id !== null) await touchImage(context.store, session.image_id, context.now())
    return await transition(context, session, 'ready', startedOn(machine, context.now()), log)
  } catch (error) {
    const live = context.live.get(session.id)
    if (live) release(context, live)
    // A start keeps the disk of the session; a create has none to keep.
    await (session.status === 'creating' ? machine?.destroy() : machine?.stop())
    throw error
  } finally {
    context.starting.delete(session.id)
  }
}

/** Starts the egress process while the machine starts. */
function prepareEgress(context: SessionContext, record: SessionRecord): void {
  if (usesEgress({ record })) context.egress.supervisor.ensure().catch(() => undefined) // joinEgress reports it
}

/** What is stored of a session once its machine runs. */
export const startedOn = (machine: Machine, now: number) =>
  ({
    reason: 'started',
    container_id: machine.containerId,
    unenforced: machine.unenforced,
    started_at: now,
    cwd: WORKSPACE,
  }) as const

/** Connects to a machine that runs, and makes its session a live one. */
export async function adopt(
  context: SessionContext,
  record: SessionRecord,
  machine: Machine,
  limits: LimitBaseline = newLimitBaseline(),
): Promise<LiveSession> {
  const link = openLink(machine)
  try {
    await link.connect()
  } catch (error) {
    link.close()
    throw error
  }
  return enlist(context, { record, machine, link, holds: 0, limits })
}

export function enlist(context: SessionContext, live: LiveSession): LiveSession {
  context.live.add(live)
  watchMachine(context, live)
  return live
}

/** Removes a session from the live ones and from the egress process; the caller ends its machine. */
export function release(context: SessionContext, live: LiveSession): void {
  context.live.remove(live)
  leaveEgress(context, live)
  live.link.close()
}

/** Errors that say that the start could not have worked: there is nothing to keep of it. */
export const isRefusal = (error: unknown): error is SandglassError =>
  error instanceof SandglassError && REFUSALS.includes(error.code)

const REFUSALS: readonly string[] = [
  'IMAGE_NOT_FOUND',
  'LIMIT_UNENFORCEABLE',
  'BACKEND_UNAVAILABLE',
  'EGRESS_UNAVAILABLE',
  'HOST_FULL',
  'UNSUPPORTED',
]

/** Stores that the start failed, and returns the error for the caller, with the name that the user knows. */
export async function storeStartFailure(
  context: SessionContext,
  record: SessionRecord,
  error: unknown,
  log: Logger,
): Promise<SandglassError<'START_FAILED'>> {
  const known = error instanceof SandglassError && error.is('START_FAILED') ? error.detail.why : null
  const why = known ?? (error instanceof Error ? error.message : String(error))
  await transition(context, record, 'fail', { reason: 'start_failed', error_message: why }, log)
  return new SandglassError('START_FAILED', { id: record.id, name: record.name, why }, { cause: error })
}
