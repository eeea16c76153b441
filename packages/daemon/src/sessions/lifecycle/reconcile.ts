// Makes the live sessions match the store when the daemon starts: running machines are connected to again, interrupted work is finished or
// failed, and machines without a session are removed. Every session has its final answer before the first request is accepted.
import { setTimeout as delay } from 'node:timers/promises'
import { SandglassError, type SessionState } from '@sandglass/contract'
import { openLink } from '@sandglass/runner-link/link'
import type { Backend, Machine } from '../../backends/backend.ts'
import { forEachConcurrently } from '../../lib/for-each-concurrently.ts'
import { withDeadline } from '../../lib/with-deadline.ts'
import { isEnded } from '../../store/sessions.ts'
import type { SessionContext } from '../context.ts'
import { boundedCwd } from '../inside/exec.ts'
import { foundLimitBaseline } from '../limits/limit-hits.ts'
import { finishResize } from '../limits/resize.ts'
import { updateEgress } from '../network/join-egress.ts'
import { findRecord, type SessionRecord, unendedRecords } from '../session-record.ts'
import { adopt, enlist, release, startedOn } from './bring-up.ts'
import { discardOrRemember } from './leftovers.ts'
import { transition } from './transition.ts'
import { enlistUnreported, isUnreported } from './unreported.ts'

const AT_ONCE = 16
const HELLO_MS = 3000
const RETRY_MS = 5000

/** `removals` go on after this: a request for a session whose machine is being removed waits for its mutex, and no other request waits. */
export async function reconcile(context: SessionContext): Promise<{ removals: Promise<unknown> }> {
  const removals: Promise<void>[] = []
  for (const backend of context.backends.values()) {
    const found = await recover(backend).catch(async err => {
      // One backend that fails must not keep the sessions of the others from running.
      context.log.error({ err, backend: backend.name }, 'backend recovery failed; retrying')
      await enlistUnreported(context, backend, err)
      return null
    })
    if (found) await settleAll(context, backend, found, removals)
    else
      recoverLate(context, backend).catch(err =>
        context.log.error({ err, backend: backend.name }, 'sessions could not be reconciled'),
      )
  }
  context.log.info({ running: context.live.all().length }, 'reconciled')
  return { removals: Promise.all(removals) }
}

/** Everything that a backend has. */
type Recovered = { sessionIds: ReadonlySet<string>; machines: ReadonlyMap<string, Machine> }

async function recover(backend: Backend): Promise<Recovered> {
  const sessionIds = new Set(await backend.sessionIds())
  const machines = new Map((await backend.recover()).map(machine => [machine.id, machine]))
  for (const id of machines.keys()) sessionIds.add(id)
  return { sessionIds, machines }
}

/** Retries until the backend answers. Requests are accepted meanwhile. */
async function recoverLate(context: SessionContext, backend: Backend): Promise<void> {
  for (;;) {
    await delay(RETRY_MS, undefined, { ref: false })
    if (context.closing.aborted) return
    const found = await recover(backend).catch(err => {
      context.log.debug({ err, backend: backend.name }, 'backend recovery failed again; retrying')
      return null
    })
    if (context.closing.aborted) return
    if (found) {
      const removals: Promise<void>[] = []
      await settleAll(context, backend, found, removals)
      await updateEgress(context, ({ record }) => record.backend === backend.name)
      await Promise.all(removals)
      context.log.info({ backend: backend.name }, 'backend reconciled late')
      return
    }
  }
}

async function settleAll(
  context: SessionContext,
  backend: Backend,
  { sessionIds, machines }: Recovered,
  removals: Promise<void>[],
): Promise<void> {
  removals.push(removeOrphans(context, backend, machines, await orphansAmong(context, sessionIds)))
  const records = (await unendedRecords(context.store)).filter(record => record.backend === backend.name)
  await forEachConcurrently(records, AT_ONCE, async ({ id, status }) => {
    const later = (work: () => Promise<unknown>) => void removals.push(underMutex(context, id, work))
    try {
      await context.mutex.run(id, async () => {
        const record = await unsettled(context, id)
        if (record) await settle(context, { record, backend, machine: machines.get(id), hasDisk: sessionIds.has(id), later })
      })
    } catch (err) {
      // One session that cannot be settled must not keep the others from running.
      context.log.error({ err, sessionId: id, status }, 'session could not be reconciled')
    }
  })
}

/** Undefined for a session that a request has ended or started while its backend did not answer. */
async function unsettled(context: SessionContext, id: string): Promise<SessionRecord | undefined> {
  const live = context.live.get(id)
  if (live === undefined) return findRecord(context.store, id)
  if (!isUnreported(live)) return undefined
  release(context, live)
  return live.record
}

async function underMutex(context: SessionContext, id: string, work: () => Promise<unknown>): Promise<void> {
  try {
    await context.mutex.run(id, work)
  } catch (err) {
    context.log.error({ err, sessionId: id }, 'machine that a session left could not be ended')
  }
}

async function orphansAmong(context: SessionContext, sessionIds: ReadonlySet<string>): Promise<string[]> {
  const orphans: string[] = []
  for (const id of sessionIds) if (await isEnded(context.store, id)) orphans.push(id)
  return orphans
}

async function removeOrphans(
  context: SessionContext,
  backend: Backend,
  machines: ReadonlyMap<string, Machine>,
  orphans: string[],
): Promise<void> {
  await forEachConcurrently(orphans, AT_ONCE, async id => {
    const leftover = { backend: backend.name, machine: machines.get(id) }
    const failure = await context.mutex.run(id, () => discardOrRemember(context, id, leftover, context.log))
    if (failure === null) context.log.info({ sessionId: id, backend: backend.name }, 'orphan removed')
  })
}

type Found = { record: SessionRecord; backend: Backend; machine: Machine | undefined; hasDisk: boolean; later: Later }
/** For work that takes long and whose outcome no request needs. */
type Later = (work: () => Promise<unknown>) => void

async function settle(context: SessionContext, found: Found): Promise<unknown> {
  const record = await finishResize(context, found.record, found.machine)
  return SETTLE[record.status](context, { ...found, record })
}

/** What is done about each state that a daemon can leave behind. */
const SETTLE: Record<SessionState, (context: SessionContext, found: Found) => Promise<unknown>> = {
  creating: finishStart,
  starting: finishStart,
  running: relink,
  paused: keepPaused,
  stopping: async (context, { record, machine, later }) => later(() => finishStop(context, record, machine)),
  stopped: async (context, { record, machine, hasDisk, later }) => {
    if (machine) later(() => machine.stop())
    if (!hasDisk && record.started_at !== null) {
      await transition(context, record, 'fail', { reason: 'machine_missing', error_message: 'the files of the session are gone' })
    }
  },
  failed: async (_, { machine, later }) => {
    if (machine) later(() => machine.stop())
  },
  completed: nothing,
  timeout: nothing,
  terminated: nothing,
}

async function nothing(): Promise<void> {
  // Sessions in a final state are not settled; their machines are removed as orphans.
}

/** The daemon died between the start of the machine and storing that it runs. If the machine runs, the session does. */
async function finishStart(context: SessionContext, { record, backend, machine, later }: Found): Promise<void> {
  if (machine) {
    try {
      await adopt(context, record, machine)
      await transition(context, record, 'ready', startedOn(machine, context.now()))
      return
    } catch (err) {
      context.log.warn({ err, sessionId: record.id }, 'machine that was starting does not answer')
    }
  }
  await transition(context, record, 'fail', {
    reason: 'interrupted_create',
    error_message: 'the daemon ended while the session started',
  })
  later(async () => (record.status === 'creating' ? backend.discard(record.id) : machine?.stop()))
}

async function finishStop(context: SessionContext, record: SessionRecord, machine: Machine | undefined): Promise<void> {
  try {
    await machine?.stop()
  } catch (error) {
    await transition(context, record, 'fail', { reason: 'machine_missing', error_message: (error as Error).message })
    throw error
  }
  await transition(context, record, 'halt', { reason: record.reason })
}

async function relink(context: SessionContext, { record, machine, later }: Found): Promise<void> {
  if (!machine) return storeMissing(context, record)
  if (!(await answers(machine))) {
    // The daemon may have died between pausing the machine and storing that it is paused.
    await machine.resume?.().catch(err => context.log.debug({ err, sessionId: record.id }, 'machine was not paused'))
  }
  try {
    const { record: linked, link } = await adopt(context, record, machine, foundLimitBaseline(context, machine, record.id))
    // A command that ended while no daemon ran may have changed the directory of the main shell.
    const { message } = await link.request('stats')
    if (typeof message.cwd === 'string' && message.cwd !== '') linked.cwd = boundedCwd(message.cwd)
  } catch (error) {
    const live = context.live.get(record.id)
    if (live) release(context, live)
    await transition(context, record, 'fail', {
      reason: 'runner_exited',
      error_message: `the runner does not answer: ${(error as Error).message}`,
    })
    later(() => machine.stop())
  }
}

async function storeMissing(context: SessionContext, record: SessionRecord): Promise<void> {
  const error_message = 'the machine was gone when the daemon started'
  await transition(context, record, 'fail', { reason: 'machine_missing', error_message })
}

async function answers(machine: Machine): Promise<boolean> {
  const link = openLink(machine)
  try {
    await withDeadline(link.connect(), HELLO_MS)
    return true
  } catch {
    return false // the caller resumes the machine and connects again
  } finally {
    link.close()
  }
}

/** A paused runner cannot answer: the link connects at the first request after the resume. */
async function keepPaused(context: SessionContext, found: Found): Promise<void> {
  const { record, machine } = found
  if (!machine) return storeMissing(context, record)
  // The daemon may have died between resuming the machine and storing that it runs.
  const failure = await machine.pause?.().then(
    () => null,
    (error: unknown) => error,
  )
  if (failure instanceof SandglassError && failure.is('PAUSE_FAILED'))
    return await relink(context, { ...found, record: await transition(context, record, 'resume', { reason: 'requested' }) })
  if (failure) context.log.debug({ err: failure, sessionId: record.id }, 'machine was already paused')
  enlist(context, {
    record,
    machine,
    link: openLink(machine),
    holds: 0,
    limits: foundLimitBaseline(context, machine, record.id),
  })
}
