// POST …/pause and …/resume: the processes of a session are frozen and thawed; memory and files stay as they are.
import { nextState, SandglassError } from '@sandglass/contract'
import type { Logger } from '../../log.ts'
import type { SessionContext } from '../context.ts'
import { getSession } from '../live.ts'
import { requireSpaceToWrite } from '../placement/admission.ts'
import type { SessionRecord } from '../session-record.ts'
import { type Change, transition } from './transition.ts'

export const pauseSession = (context: SessionContext, ref: string, log: Logger): Promise<SessionRecord> =>
  onRequest(context, ref, 'pause', log)
export const resumeSession = (context: SessionContext, ref: string, log: Logger): Promise<SessionRecord> =>
  onRequest(context, ref, 'resume', log)

async function onRequest(context: SessionContext, ref: string, verb: 'pause' | 'resume', log: Logger): Promise<SessionRecord> {
  const { id } = await getSession(context, ref)
  return context.mutex.run(id, async () => setFrozen(context, await getSession(context, id), verb, { reason: 'requested' }, log))
}

/** The caller holds the session's mutex. A pause throws when the machine is not frozen within `deadlineMs`, where one is given. */
export async function setFrozen(
  context: SessionContext,
  record: SessionRecord,
  verb: 'pause' | 'resume',
  change: Change,
  log: Logger,
  deadlineMs?: number,
): Promise<SessionRecord> {
  nextState(record.id, record.status, verb, record.name)
  const machine = context.live.get(record.id)?.machine
  if (!machine?.pause || !machine.resume)
    throw new SandglassError('UNSUPPORTED', {
      what: `${verb}: the daemon has no cgroup to freeze processes with`,
      next: '`sandglass doctor` says how to give it one',
    })
  if (verb === 'resume') {
    await requireSpaceToWrite(context, record)
    await machine.resume()
  } else await machine.pause(deadlineMs)
  return transition(context, record, verb, change, log)
}
