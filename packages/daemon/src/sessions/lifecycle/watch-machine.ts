// Notices that a machine died. The shared connection to its runner breaks first; whether the machine is gone with it, the backend says.
import { setTimeout as delay } from 'node:timers/promises'
import type { LimitHit } from '@sandglass/contract'
import type { Epitaph } from '../../backends/backend.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import type { LiveSession } from '../live.ts'
import { release } from './bring-up.ts'
import { type Change, transition } from './transition.ts'

/** A runtime may report a machine as running for a moment after its first process is gone. */
const LOOK_AGAIN_MS = [0, 20, 50, 100, 200, 500, 1000]
/** What answers for the machine may itself be away: an engine that is restarted, a host that cannot be reached. */
const THEN_EVERY_MS = 5000

export function watchMachine(context: SessionContext, live: LiveSession): void {
  live.link.onLost(error => {
    examine(context, live).catch(cause =>
      context.log.error({ sessionId: live.row.id, err: cause, lost: error.message }, 'machine could not be examined'),
    )
  })
}

async function examine(context: SessionContext, live: LiveSession): Promise<void> {
  for (let round = 0; !context.closing.aborted; round++) {
    await delay(LOOK_AGAIN_MS[round] ?? THEN_EVERY_MS, undefined, { ref: false })
    if (context.live.get(live.row.id) !== live) return
    const isRunning = await live.machine.isRunning().catch(err => {
      context.log.debug({ sessionId: live.row.id, err }, 'nobody tells whether the machine runs')
      return null
    })
    if (isRunning === false) return bury(context, live)
    if (isRunning && (await reconnects(live))) return
    if (round === LOOK_AGAIN_MS.length) context.log.warn({ sessionId: live.row.id }, 'runner does not answer; it is asked again')
  }
}

/** A paused runner cannot answer; it is asked again when it is resumed. */
async function reconnects(live: LiveSession): Promise<boolean> {
  if (live.row.status !== 'running') return true
  return live.link.connect().then(
    () => true,
    () => false,
  )
}

/** Stores the death with its cause. Files stay, so that the session can be started again. */
async function bury(context: SessionContext, live: LiveSession): Promise<void> {
  await context.mutex.run(live.row.id, async () => {
    if (context.live.get(live.row.id) !== live) return
    await transition(context, live.row, 'fail', ended(live.row, await live.machine.epitaph()))
    release(context, live)
    await live.machine.stop()
  })
}

function ended(row: SessionRow, { limit, text }: Epitaph): Change {
  const reason = limit === 'memory_mb' ? 'out_of_memory' : 'runner_exited'
  if (limit === null) return { reason, error_message: text }
  const hit: LimitHit = { limit, value: row[limit] }
  return { reason, error_message: `${text}; ${limit} is ${hit.value}`, limit_hit: JSON.stringify(hit) }
}
