// Makes the world match the store after the daemon was away: machines are found again, what was interrupted is finished or failed,
// and what belongs to nobody goes. What a request could ask about is settled before the first is taken.
import { setTimeout as delay } from 'node:timers/promises'
import { SandglassError, type SessionState } from '@sandglass/contract'
import type { Backend, Machine } from '../../backends/backend.ts'
import { forEachAtOnce } from '../../lib/for-each-at-once.ts'
import { openLink } from '../../runner-link/link.ts'
import { findSession, isEnded, unendedSessions } from '../../store/sessions.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { World } from '../context.ts'
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
export async function reconcile(world: World): Promise<{ removals: Promise<unknown> }> {
  const removals: Promise<void>[] = []
  for (const backend of world.backends.values()) {
    const seen = await look(backend).catch(async err => {
      // One backend that cannot tell what it has must not keep the others from running.
      world.log.error({ err, backend: backend.name }, 'backend does not tell what runs; it is asked again')
      await enlistUnseen(world, backend, err)
      return null
    })
    if (seen) await settleAll(world, backend, seen, removals)
    else
      lookAgain(world, backend).catch(err => world.log.error({ err, backend: backend.name }, 'sessions could not be reconciled'))
  }
  world.log.info({ running: world.live.all().length }, 'reconciled')
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
async function lookAgain(world: World, backend: Backend): Promise<void> {
  for (;;) {
    await delay(LOOK_AGAIN_MS, undefined, { ref: false })
    if (world.closing.aborted) return
    const seen = await look(backend).catch(err => {
      world.log.debug({ err, backend: backend.name }, 'backend still does not tell what runs')
      return null
    })
    if (world.closing.aborted) return
    if (seen) {
      const removals: Promise<void>[] = []
      await settleAll(world, backend, seen, removals)
      await Promise.all(removals)
      world.log.info({ backend: backend.name }, 'backend reconciled late')
      return
    }
  }
}

async function settleAll(
  world: World,
  backend: Backend,
  { residents, machines }: Seen,
  removals: Promise<void>[],
): Promise<void> {
  removals.push(removeOrphans(world, backend, machines, await orphansAmong(world, residents)))
  const mine = (await unendedSessions(world.store)).filter(row => row.backend === backend.name)
  await forEachAtOnce(mine, AT_ONCE, async ({ id, status }) => {
    const later = (work: () => Promise<unknown>) => void removals.push(inItsTurn(world, id, work))
    try {
      await world.mutex.run(id, async () => {
        const row = await unsettled(world, id)
        if (row) await settle(world, { row, backend, machine: machines.get(id), hasDisk: residents.has(id), later })
      })
    } catch (err) {
      // One session that cannot be settled must not keep the others from running.
      world.log.error({ err, sessionId: id, status }, 'session could not be reconciled')
    }
  })
}

/** Nothing for one that requests have ended or started while its backend did not tell. */
async function unsettled(world: World, id: string): Promise<SessionRow | undefined> {
  const live = world.live.get(id)
  if (live === undefined) return findSession(world.store, { id })
  if (!isUnseen(live)) return undefined
  release(world, live)
  return live.row
}

async function inItsTurn(world: World, id: string, work: () => Promise<unknown>): Promise<void> {
  try {
    await world.mutex.run(id, work)
  } catch (err) {
    world.log.error({ err, sessionId: id }, 'what a session left running could not be ended')
  }
}

async function orphansAmong(world: World, residents: ReadonlySet<string>): Promise<string[]> {
  const orphans: string[] = []
  for (const id of residents) if (await isEnded(world.store, id)) orphans.push(id)
  return orphans
}

async function removeOrphans(
  world: World,
  backend: Backend,
  machines: ReadonlyMap<string, Machine>,
  orphans: string[],
): Promise<void> {
  await forEachAtOnce(orphans, AT_ONCE, async id => {
    const left = { backend: backend.name, machine: machines.get(id) }
    const failure = await world.mutex.run(id, () => discardOrRemember(world, id, left, world.log))
    if (failure === null) world.log.info({ sessionId: id, backend: backend.name }, 'orphan removed')
  })
}

type Found = { row: SessionRow; backend: Backend; machine: Machine | undefined; hasDisk: boolean; later: Later }
/** For what takes long and no request needs the outcome of. */
type Later = (work: () => Promise<unknown>) => void

async function settle(world: World, found: Found): Promise<unknown> {
  const row = await finishResize(world, found.row, found.machine)
  return SETTLE[row.status](world, { ...found, row })
}

/** What each state that a daemon can leave behind comes to. */
const SETTLE: Record<SessionState, (world: World, found: Found) => Promise<unknown>> = {
  creating: finishStart,
  starting: finishStart,
  running: relink,
  paused: keepPaused,
  stopping: async (world, { row, machine, later }) => later(() => finishStop(world, row, machine)),
  stopped: async (world, { row, machine, hasDisk, later }) => {
    if (machine) later(() => machine.stop())
    if (!hasDisk && row.started_at !== null) {
      await transition(world, row, 'fail', { reason: 'machine_missing', error_message: 'the files of the session are gone' })
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
async function finishStart(world: World, { row, backend, machine, later }: Found): Promise<void> {
  if (machine) {
    try {
      const live = await adopt(world, row, machine)
      live.row = await transition(world, row, 'ready', startedOn(machine, world.now()))
      return
    } catch (err) {
      world.log.warn({ err, sessionId: row.id }, 'a machine that was starting does not answer')
    }
  }
  await transition(world, row, 'fail', {
    reason: 'interrupted_create',
    error_message: 'the daemon ended while the session started',
  })
  later(async () => (row.status === 'creating' ? backend.discard(row.id) : machine?.stop()))
}

async function finishStop(world: World, row: SessionRow, machine: Machine | undefined): Promise<void> {
  try {
    await machine?.stop()
  } catch (error) {
    await transition(world, row, 'fail', { reason: 'machine_missing', error_message: (error as Error).message })
    throw error
  }
  await transition(world, row, 'halt', { reason: row.reason })
}

async function relink(world: World, { row, machine, later }: Found): Promise<void> {
  if (!machine) {
    await transition(world, row, 'fail', {
      reason: 'machine_missing',
      error_message: 'the machine was gone when the daemon started',
    })
    return
  }
  if (!(await answers(machine))) {
    // The daemon may have died between freezing the machine and storing that it is paused.
    await machine.resume?.().catch(err => world.log.debug({ err, sessionId: row.id }, 'not frozen'))
  }
  try {
    const { row: linked, link } = await adopt(world, row, machine, foundLimitMemory(world, machine, row.id))
    // A command that ended while no daemon looked may have moved the main shell.
    const { message } = await link.request('stats')
    if (typeof message.cwd === 'string' && message.cwd !== '') linked.cwd = boundedCwd(message.cwd)
  } catch (error) {
    const live = world.live.get(row.id)
    if (live) release(world, live)
    await transition(world, row, 'fail', {
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
async function keepPaused(world: World, found: Found): Promise<void> {
  const { row, machine } = found
  if (!machine) {
    await transition(world, row, 'fail', {
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
    return await relink(world, { ...found, row: await transition(world, row, 'resume', { reason: 'requested' }) })
  if (failure) world.log.debug({ err: failure, sessionId: row.id }, 'already frozen')
  enlist(world, {
    row,
    machine,
    link: openLink(machine),
    holds: 0,
    limits: foundLimitMemory(world, machine, row.id),
  })
}
