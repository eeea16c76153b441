// Sessions whose backend cannot tell whether their machine runs: an engine that is down or hangs. They stay as they are stored, and whoever
// calls one hears why it cannot be reached.
import { SandglassError } from '@sandglass/contract'
import type { Backend, Machine } from '../../backends/backend.ts'
import type { RunnerLink } from '../../runner-link/link.ts'
import { unendedSessions } from '../../store/sessions.ts'
import type { SessionContext } from '../context.ts'
import { newLimitMemory } from '../limits/limit-hits.ts'
import type { LiveSession } from '../live.ts'
import { enlist } from './bring-up.ts'

/** Nothing for those that are among the live ones already. */
export async function enlistUnseen(context: SessionContext, { name }: Backend, error: unknown): Promise<void> {
  const fail = () => Promise.reject(unavailable(name, error))
  for (const row of await unendedSessions(context.store)) {
    const isHeld = row.status === 'running' || row.status === 'paused'
    if (row.backend !== name || !isHeld || context.live.get(row.id)) continue
    enlist(context, { row, machine: unseenMachine(row.id, fail), link: unseenLink(fail), holds: 0, limits: newLimitMemory() })
  }
}

export const isUnseen = ({ machine }: LiveSession): boolean => machine.containerId === UNSEEN

const UNSEEN = 'unseen'

function unavailable(backend: string, error: unknown): SandglassError {
  if (error instanceof SandglassError) return error
  return new SandglassError('BACKEND_UNAVAILABLE', { backend, why: (error as Error).message }, { cause: error })
}

type Fail = () => Promise<never>

function unseenMachine(id: string, fail: Fail): Machine {
  return {
    id,
    containerId: UNSEEN,
    token: '',
    unenforced: [],
    mux: false,
    dial: fail,
    // Asked once its backend has removed whatever there was.
    isRunning: async () => false,
    stats: fail,
    limitEvents: fail,
    epitaph: fail,
    pause: fail,
    resume: fail,
    stop: fail,
    destroy: fail,
  }
}

function unseenLink(fail: Fail): RunnerLink {
  return { connect: fail, request: fail, stream: fail, onLost: () => () => undefined, bootId: null, close: () => undefined }
}
