// POST …/pause and …/resume: the processes of a session are frozen and thawed; memory and files stay as they are.
import { nextState, type Reason, SandglassError } from '@sandglass/contract'
import type { Logger } from '../../log.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import { getSession } from '../get.ts'
import { requireFreeDisk } from '../placement/admission.ts'
import { transition } from './transition.ts'

export const pauseSession = (context: SessionContext, ref: string, log: Logger): Promise<SessionRow> =>
  onRequest(context, ref, 'pause', log)
export const resumeSession = (context: SessionContext, ref: string, log: Logger): Promise<SessionRow> =>
  onRequest(context, ref, 'resume', log)

async function onRequest(context: SessionContext, ref: string, verb: 'pause' | 'resume', log: Logger): Promise<SessionRow> {
  const { id } = await getSession(context, ref)
  return context.mutex.run(id, async () => freeze(context, await getSession(context, id), verb, 'requested', log))
}

/** The caller has the turn. */
export async function freeze(
  context: SessionContext,
  row: SessionRow,
  verb: 'pause' | 'resume',
  reason: Reason,
  log: Logger,
): Promise<SessionRow> {
  nextState(row.id, row.status, verb, row.name)
  const machine = context.live.get(row.id)?.machine
  const act = machine?.[verb]
  if (!machine || !act)
    throw new SandglassError('UNSUPPORTED', {
      what: `${verb}: the daemon has no cgroup to freeze processes with`,
      next: '`sandglass doctor` says how to give it one',
    })
  if (verb === 'resume') await requireFreeDisk(context, row)
  await act.call(machine)
  return transition(context, row, verb, { reason }, log)
}
