// Makes the world match the store after the daemon was away: machines are found again, what was interrupted is finished or failed,
// and what belongs to nobody goes. It runs before the first request is taken.
import type { SessionState } from '@sandglass/contract'
import type { Backend, Machine } from '../backends/backend.ts'
import { openLink } from '../runner-link/link.ts'
import { isEnded, unendedSessions } from '../store/sessions.ts'
import type { SessionRow } from '../store/tables.ts'
import { adopt, enlist, release, WORKSPACE } from './bring-up.ts'
import { forEachAtOnce } from './for-each-at-once.ts'
import { transition } from './transition.ts'
import type { World } from './world.ts'

const AT_ONCE = 16
const HELLO_MS = 3000

export async function reconcile(world: World): Promise<void> {
  const rows = await unendedSessions(world.store)
  for (const backend of world.backends.values()) {
    const residents = new Set(await backend.residents())
    const machines = new Map((await backend.recover()).map(machine => [machine.id, machine]))
    for (const id of machines.keys()) residents.add(id)
    await removeOrphans(world, backend, residents)
    const mine = rows.filter(row => row.backend === backend.name)
    await forEachAtOnce(mine, AT_ONCE, async row => {
      try {
        await settle(world, { row, backend, machine: machines.get(row.id), hasDisk: residents.has(row.id) })
      } catch (err) {
        // One session that cannot be settled must not keep the others from running.
        world.log.error({ err, sessionId: row.id, status: row.status }, 'session could not be reconciled')
      }
    })
  }
  world.log.info({ sessions: rows.length, running: world.live.all().length }, 'reconciled')
}

async function removeOrphans(world: World, backend: Backend, residents: Set<string>): Promise<void> {
  await forEachAtOnce(residents, AT_ONCE, async id => {
    if (!(await isEnded(world.store, id))) return
    try {
      await backend.discard(id)
      world.log.info({ sessionId: id, backend: backend.name }, 'orphan removed')
    } catch (err) {
      world.log.error({ err, sessionId: id }, 'orphan could not be removed; it is tried again')
      world.leftovers.set(id, backend.name)
    }
  })
}

type Found = { row: SessionRow; backend: Backend; machine: Machine | undefined; hasDisk: boolean }

const settle = (world: World, found: Found): Promise<unknown> => SETTLE[found.row.status](world, found)

/** What each state that a daemon can leave behind comes to. */
const SETTLE: Record<SessionState, (world: World, found: Found) => Promise<unknown>> = {
  creating: finishStart,
  starting: finishStart,
  running: relink,
  paused: keepPaused,
  stopping: async (world, { row, machine }) => {
    await machine?.stop()
    await transition(world, row, 'halt', { reason: 'requested' })
  },
  stopped: async (world, { row, machine, hasDisk }) => {
    await machine?.stop()
    if (!hasDisk && row.started_at !== null) {
      await transition(world, row, 'fail', { reason: 'machine_missing', error_message: 'the files of the session are gone' })
    }
  },
  failed: async (_, { machine }) => machine?.stop(),
  completed: nothing,
  timeout: nothing,
  terminated: nothing,
}

async function nothing(): Promise<void> {
  // Final states are not among the rows; what is left of their machines goes with the orphans.
}

/** The daemon died between asking for the machine and storing that it runs. If it does run, the session is whole. */
async function finishStart(world: World, { row, backend, machine }: Found): Promise<void> {
  if (machine) {
    try {
      const live = await adopt(world, row, machine)
      const change = {
        reason: 'started',
        container_id: machine.containerId,
        unenforced: JSON.stringify(machine.unenforced),
        started_at: world.now(),
        cwd: WORKSPACE,
      } as const
      live.row = await transition(world, row, 'ready', change)
      return
    } catch (err) {
      world.log.warn({ err, sessionId: row.id }, 'a machine that was starting does not answer')
    }
  }
  await (row.status === 'creating' ? backend.discard(row.id) : machine?.stop())
  await transition(world, row, 'fail', {
    reason: 'interrupted_create',
    error_message: 'the daemon ended while the session started',
  })
}

async function relink(world: World, { row, machine }: Found): Promise<void> {
  if (!machine) {
    await transition(world, row, 'fail', {
      reason: 'machine_missing',
      error_message: 'the machine was gone when the daemon started',
    })
    return
  }
  if (!(await answers(row, machine))) {
    // The daemon may have died between freezing the machine and storing that it is paused.
    await machine.resume?.().catch(err => world.log.debug({ err, sessionId: row.id }, 'not frozen'))
  }
  try {
    const { row: linked, link } = await adopt(world, row, machine)
    // A command that ended while no daemon looked may have moved the main shell.
    const { message } = await link.request('stats')
    if (typeof message.cwd === 'string' && message.cwd !== '') linked.cwd = message.cwd
  } catch (error) {
    const live = world.live.get(row.id)
    if (live) release(world, live)
    await machine.stop()
    await transition(world, row, 'fail', {
      reason: 'runner_exited',
      error_message: `the runner does not answer: ${(error as Error).message}`,
    })
  }
}

async function answers(row: SessionRow, machine: Machine): Promise<boolean> {
  const link = openLink({ id: row.id, dial: () => machine.dial(), token: machine.token })
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
async function keepPaused(world: World, { row, machine }: Found): Promise<void> {
  if (!machine) {
    await transition(world, row, 'fail', {
      reason: 'machine_missing',
      error_message: 'the machine was gone when the daemon started',
    })
    return
  }
  // The daemon may have died between thawing the machine and storing it.
  await machine.pause?.().catch(err => world.log.debug({ err, sessionId: row.id }, 'already frozen'))
  enlist(world, { row, machine, link: openLink({ id: row.id, dial: () => machine.dial(), token: machine.token }), holds: 0 })
}
