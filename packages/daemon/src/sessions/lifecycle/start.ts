// POST …/start: a stopped or failed session runs again, with the files it had.
import { nextState, STARTABLE_STATES, type StartRequest } from '@sandglass/contract'
import type { Logger } from '../../log.ts'
import type { SessionContext } from '../context.ts'
import { getSession } from '../live.ts'
import { networkSettings } from '../network/network-settings.ts'
import { withDiskSpace } from '../placement/admission.ts'
import { planStart } from '../placement/plan.ts'
import type { SessionRecord } from '../session-record.ts'
import { bringUp, isRefusal, storeStartFailure } from './bring-up.ts'
import { versionsOf } from './prepare-agents.ts'
import { prepareImage } from './prepare-image.ts'
import { transition } from './transition.ts'

/** The signal ends a start whose image is not ready yet: nothing has changed by then. What the request changes holds for later starts, too. */
export async function startSession(
  context: SessionContext,
  ref: string,
  request: StartRequest,
  signal: AbortSignal,
  log: Logger,
): Promise<SessionRecord> {
  const asked = await getSession(context, ref)
  // A session that is being stopped now may be startable once its mutex is free, with its image prepared by the backend's start.
  if (STARTABLE_STATES.includes(asked.status)) {
    const plan = await planStart(context, { ...asked, ...(await networkSettings(context, asked, request)) })
    await prepareImage(context, plan, AbortSignal.any([signal, context.closing]))
  }
  return context.mutex.run(asked.id, async () => {
    const found = await getSession(context, asked.id)
    nextState(found.id, found.status, 'start', found.name)
    return withDiskSpace(context, found, () => startAgain(context, found, request, log))
  })
}

async function startAgain(
  context: SessionContext,
  found: SessionRecord,
  request: StartRequest,
  log: Logger,
): Promise<SessionRecord> {
  // Before the state is stored: whoever sees `starting` and ends the session must find a start that can be aborted.
  const settings = await networkSettings(context, found, request)
  const changes = { ...settings, agent_packages: await versionsOf(context, settings.agents) }
  const plan = await planStart(context, { ...found, ...changes })
  const { ca_fingerprint } = plan.session
  const session = await transition(context, found, 'start', { reason: 'requested', ...changes, ca_fingerprint }, log)
  try {
    return await bringUp(context, { ...plan, session }, log)
  } catch (error) {
    const failure = await storeStartFailure(context, session, error, log)
    throw isRefusal(error) ? error : failure
  }
}
