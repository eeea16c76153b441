// Sessions whose backend cannot report whether their machine runs, because its engine is down or hangs. They keep their stored state, and every
// call to one of them fails with the reason.
import { LIVE_STATES, SandglassError } from '@sandglass/contract'
import type { RunnerLink } from '@sandglass/runner-link/link'
import type { Backend, Machine } from '../../backends/backend.ts'
import type { SessionContext } from '../context.ts'
import { newLimitBaseline } from '../limits/limit-hits.ts'
import type { LiveSession } from '../live.ts'
import { unendedRecords } from '../session-record.ts'
import { enlist } from './bring-up.ts'

/** Makes the backend's sessions live with a machine that fails every call, unless they are live already. */
export async function enlistUnreported(context: SessionContext, { name }: Backend, error: unknown): Promise<void> {
  const fail = () => Promise.reject(unavailable(name, error))
  for (const record of await unendedRecords(context.store)) {
    if (record.backend !== name || !LIVE_STATES.includes(record.status) || context.live.get(record.id)) continue
    const machine = unreportedMachine(record.id, fail)
    enlist(context, { record, machine, link: unreportedLink(fail), holds: 0, limits: newLimitBaseline() })
  }
}

export const isUnreported = (live: LiveSession | undefined): boolean => live?.machine.containerId === UNREPORTED

const UNREPORTED = 'unreported'

function unavailable(backend: string, error: unknown): SandglassError {
  if (error instanceof SandglassError) return error
  return new SandglassError('BACKEND_UNAVAILABLE', { backend, why: (error as Error).message }, { cause: error })
}

type Fail = () => Promise<never>

function unreportedMachine(id: string, fail: Fail): Machine {
  return {
    id,
    containerId: UNREPORTED,
    token: '',
    egress: null,
    unenforced: [],
    mux: false,
    dial: fail,
    // Called only after the backend has discarded the session.
    isRunning: async () => false,
    stats: fail,
    limitEvents: fail,
    exitReason: fail,
    pause: fail,
    resume: fail,
    stop: fail,
    destroy: fail,
  }
}

function unreportedLink(fail: Fail): RunnerLink {
  return { connect: fail, request: fail, stream: fail, onLost: () => () => undefined, bootId: null, close: () => undefined }
}
