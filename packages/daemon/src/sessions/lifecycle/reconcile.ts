// Makes the world match the store after the daemon was away: machines are found again, what was interrupted is finished or failed,
// and what belongs to nobody goes. What a request could ask about is settled before the first is taken.
import { setTimeout as delay } from 'node:timers/promises'
import { SandglassError, type SessionState } from '@sandglass/contract'
import type { Backend, Machine } from '../../backends/backend.ts'
import { forEachAtOnce } from '../../lib/for-each-at-once.ts'
import { openLink } from '../../runner-link/link.ts'
import { findSession, isEnded, unendedSessions } from '../../store/sessions.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import { boundedCwd } from '../inside/bounded-cwd.ts'
import { foundLimitMemory } from '../limits/limit-hits.ts'
import { finishResize } from '../limits/resize.ts'
import { adopt, enlist, release, startedOn } from './bring-up.ts'
import { discardOrRemember } from './leftovers.ts'
import { transition } from './transition.ts'
import { enlistUnseen, isUnseen } from './unseen.ts'

const AT_ONCE = 16
const HELLO_MS = 3000
const LOOK_AGAIN_MS = 5000

/** `removals` go on after this: a request for a session whose machine is being removed waits for its turn, and no other does. */
export async function reconcile(context: SessionContext): Promise<{ removals: Promise<unknown> }> {
  const removals: Promise<void>[] = []
  for (const backend of context.backends.values()) {
    const seen = await look(backend).catch(async err => {
      // One backend that cannot tell what it has must not keep the others from running.
      context.log.error({ err, backend: backend.name }, 'backend does not tell what runs; it is asked again')
      await enlistUnseen(context, backend, err)
      return null
    })
    if (seen) await settleAll(context, backend, seen, removals)
    else
      lookAgain(context, backend).catch(err =>
        context.log.error({ err, backend: backend.name }, 'sessions could not be reconciled'),
      )
  }
  context.log.info({ running: context.live.all().length }, 'reconciled')
  return { removals: Promise.all(removals) }
}

type Seen = { residents: ReadonlySet<string>; machines: ReadonlyMap<string, Machine> }

async function look(backend: Backend): Promise<Seen> {
  const residents = new Set(await backend.residents())
  const machines = new Map((await backend.recover()).map(machine => [machine.id, machine]))
  for (const id of machines.keys()) residents.add(id)
  return { residents, machines }
}

/** Until the backend tells. Requests are taken meanwhile. */
async function lookAgain(context: SessionContext, backend: Backend): Promise<void> {
  for (;;) {
    await delay(LOOK_AGAIN_MS, undefined, { ref: false })
    if (context.closing.aborted) return
    const seen = await look(backend).catch(err => {
      context.log.debug({ err, backend: backend.name }, 'backend still does not tell what runs')
      return null
    })
    if (context.closing.aborted) return
    if (seen) {
      const removals: Promise<void>[] = []
      await settleAll(context, backend, seen, removals)
      await Promise.all(removals)
      context.log.info({ backend: backend.name }, 'backend reconciled late')
      return
    }
  }
}

async function settleAll(
  context: SessionContext,
  backend: Backend,
  { residents, machines }: Seen,
  removals: Promise<void>[],
): Promise<void> {
  removals.push(removeOrphans(context, backend, machines, await orphansAmong(context, residents)))
  const mine = (await unendedSessions(context.store)).filter(row => row.backend === backend.name)
  await forEachAtOnce(mine, AT_ONCE, async ({ id, status }) => {
    const later = (work: () => Promise<unknown>) => void removals.push(inItsTurn(context, id, work))
    try {
      await context.mutex.run(id, async () => {
        const row = await unsettled(context, id)
        if (row) await settle(context, { row, backend, machine: machines.get(id), hasDisk: residents.has(id), later })
      })
    } catch (err) {
      // One session that cannot be settled must not keep the others from running.
      context.log.error({ err, sessionId: id, status }, 'session could not be reconciled')
    }
  })
}

/** Nothing for one that requests have ended or started while its backend did not tell. */
async function unsettled(context: SessionContext, id: string): Promise<SessionRow | undefined> {
  const live = context.live.get(id)
  if (live === undefined) return findSession(context.store, { id })
  if (!isUnseen(live)) return undefined
  release(context, live)
  return live.row
}

async function inItsTurn(context: SessionContext, id: string, work: () => Promise<unknown>): Promise<void> {
  try {
    await context.mutex.run(id, work)
  } catch (err) {
    context.log.error({ err, sessionId: id }, 'what a session left running could not be ended')
  }
}

async function orphansAmong(context: SessionContext, residents: ReadonlySet<string>): Promise<string[]> {
  const orphans: string[] = []
  for (const id of residents) if (await isEnded(context.store, id)) orphans.push(id)
  return orphans
}

async function removeOrphans(
  context: SessionContext,
  backend: Backend,
  machines: ReadonlyMap<string, Machine>,
  orphans: string[],
): Promise<void> {
  await forEachAtOnce(orphans, AT_ONCE, async id => {
    const left = { backend: backend.name, machine: machines.get(id) }
    const failure = await context.mutex.run(id, () => discardOrRemember(context, id, left, context.log))
    if (failure === null) context.log.info({ sessionId: id, backend: backend.name }, 'orphan removed')
  })
}

type Found = { row: SessionRow; backend: Backend; machine: Machine | undefined; hasDisk: boolean; later: Later }
/** For what takes long and no request needs the outcome of. */
type Later = (work: () => Promise<unknown>) => void

async function settle(context: SessionContext, found: Found): Promise<unknown> {
  const row = await finishResize(context, found.row, found.machine)
  return SETTLE[row.status](context, { ...found, row })
}

/** What each state that a daemon can leave behind comes to. */
const SETTLE: Record<SessionState, (context: SessionContext, found: Found) => Promise<unknown>> = {
  creating: finishStart,
  starting: finishStart,
  running: relink,
  paused: keepPaused,
  stopping: async (context, { row, machine, later }) => later(() => finishStop(context, row, machine)),
  stopped: async (context, { row, machine, hasDisk, later }) => {
    if (machine) later(() => machine.stop())
    if (!hasDisk && row.started_at !== null) {
      await transition(context, row, 'fail', { reason: 'machine_missing', error_message: 'the files of the session are gone' })
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
  // Final states are not among the rows; what is left of their machines goes with the orphans.
}

/** The daemon died between asking for the machine and storing that it runs. If it does run, the session is whole. */
async function finishStart(context: SessionContext, { row, backend, machine, later }: Found): Promise<void> {
  if (machine) {
    try {
      const live = await adopt(context, row, machine)
      live.row = await transition(context, row, 'ready', startedOn(machine, context.now()))
      return
    } catch (err) {
      context.log.warn({ err, sessionId: row.id }, 'a machine that was starting does not answer')
    }
  }
  await transition(context, row, 'fail', {
    reason: 'interrupted_create',
    error_message: 'the daemon ended while the session started',
  })
  later(async () => (row.status === 'creating' ? backend.discard(row.id) : machine?.stop()))
}

async function finishStop(context: SessionContext, row: SessionRow, machine: Machine | undefined): Promise<void> {
  try {
    await machine?.stop()
  } catch (error) {
    await transition(context, row, 'fail', { reason: 'machine_missing', error_message: (error as Error).message })
    throw error
  }
  await transition(context, row, 'halt', { reason: row.reason })
}

async function relink(context: SessionContext, { row, machine, later }: Found): Promise<void> {
  if (!machine) {
    await transition(context, row, 'fail', {
      reason: 'machine_missing',
      error_message: 'the machine was gone when the daemon started',
    })
    return
  }
  if (!(await answers(machine))) {
    // The daemon may have died between freezing the machine and storing that it is paused.
    await machine.resume?.().catch(err => context.log.debug({ err, sessionId: row.id }, 'not frozen'))
  }
  try {
    const { row: linked, link } = await adopt(context, row, machine, foundLimitMemory(context, machine, row.id))
    // A command that ended while no daemon looked may have moved the main shell.
    const { message } = await link.request('stats')
    if (typeof message.cwd === 'string' && message.cwd !== '') linked.cwd = boundedCwd(message.cwd)
  } catch (error) {
    const live = context.live.get(row.id)
    if (live) release(context, live)
    await transition(context, row, 'fail', {
      reason: 'runner_exited',
      error_message: `the runner does not answer: ${(error as Error).message}`,
    })
    later(() => machine.stop())
  }
}

async function answers(machine: Machine): Promise<boolean> {
  const link = openLink(machine)
  try {
    await Promise.race([
      link.connect(),
      new Promise((_, reject) => setTimeout(() => reject(new Error('no answer in time')), HELLO_MS).unref()),
    ])
    return true
  } catch {
    return false // the caller tries to thaw it, and then for good
  } finally {
    link.close()
  }
}

/** A frozen runner cannot answer: the link connects at the first request after the resume. */
async function keepPaused(context: SessionContext, found: Found): Promise<void> {
  const { row, machine } = found
  if (!machine) {
    await transition(context, row, 'fail', {
      reason: 'machine_missing',
      error_message: 'the machine was gone when the daemon started',
    })
    return
  }
  // The daemon may have died between thawing the machine and storing it.
  const failure = await machine.pause?.().then(
    () => null,
    (error: unknown) => error,
  )
  if (failure instanceof SandglassError && failure.is('PAUSE_FAILED'))
    return await relink(context, { ...found, row: await transition(context, row, 'resume', { reason: 'requested' }) })
  if (failure) context.log.debug({ err: failure, sessionId: row.id }, 'already frozen')
  enlist(context, {
    row,
    machine,
    link: openLink(machine),
    holds: 0,
    limits: foundLimitMemory(context, machine, row.id),
  })
}
