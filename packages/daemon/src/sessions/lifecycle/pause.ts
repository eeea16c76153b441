// POST …/pause and …/resume: the processes of a session are frozen and thawed; memory and files stay as they are.
import { nextState, type Reason, SandglassError } from '@sandglass/contract'
import type { Logger } from '../../log.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { World } from '../context.ts'
import { getSession } from '../get.ts'
import { requireFreeDisk } from '../placement/admission.ts'
import { transition } from './transition.ts'

export const pauseSession = (world: World, ref: string, log: Logger): Promise<SessionRow> => onRequest(world, ref, 'pause', log)
export const resumeSession = (world: World, ref: string, log: Logger): Promise<SessionRow> => onRequest(world, ref, 'resume', log)

async function onRequest(world: World, ref: string, verb: 'pause' | 'resume', log: Logger): Promise<SessionRow> {
  const { id } = await getSession(world, ref)
  return world.mutex.run(id, async () => freeze(world, await getSession(world, id), verb, 'requested', log))
}

/** The caller has the turn. */
export async function freeze(
  world: World,
  row: SessionRow,
  verb: 'pause' | 'resume',
  reason: Reason,
  log: Logger,
): Promise<SessionRow> {
  nextState(row.id, row.status, verb, row.name)
  const machine = world.live.get(row.id)?.machine
  const act = machine?.[verb]
  if (!machine || !act)
    throw new SandglassError('UNSUPPORTED', {
      what: `${verb}: the daemon has no cgroup to freeze processes with`,
      next: '`sandglass doctor` says how to give it one',
    })
  if (verb === 'resume') await requireFreeDisk(world, row)
  await act.call(machine)
  return transition(world, row, verb, { reason }, log)
}
