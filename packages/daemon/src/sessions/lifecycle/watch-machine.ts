// Notices that a machine died. The shared connection to its runner breaks first; the backend then says whether the machine is gone.
import { setTimeout as delay } from 'node:timers/promises'
import type { MachineExit } from '../../backends/backend.ts'
import type { SessionContext } from '../context.ts'
import type { LiveSession } from '../live.ts'
import type { SessionRecord } from '../session-record.ts'
import { release } from './bring-up.ts'
import { type Change, transition } from './transition.ts'

/** A runtime may report a machine as running for a moment after its first process is gone. */
const CHECK_AFTER_MS = [0, 20, 50, 100, 200, 500, 1000]
/** The engine that reports the machine may be unavailable itself: it restarts, or its host cannot be reached. */
const THEN_EVERY_MS = 5000

export function watchMachine(context: SessionContext, live: LiveSession): void {
  live.link.onLost(error => {
    checkUntilKnown(context, live).catch(cause =>
      context.log.error(
        { sessionId: live.record.id, err: cause, lost: error.message },
        'state of a machine could not be checked',
      ),
    )
  })
}

async function checkUntilKnown(context: SessionContext, live: LiveSession): Promise<void> {
  for (let round = 0; !context.closing.aborted; round++) {
    await delay(CHECK_AFTER_MS[round] ?? THEN_EVERY_MS, undefined, { ref: false })
    if (context.live.get(live.record.id) !== live) return
    const isRunning = await live.machine.isRunning().catch(err => {
      context.log.debug({ sessionId: live.record.id, err }, 'backend did not report whether the machine runs')
      return null
    })
    if (isRunning === false) {
      await failSession(context, live, async () => exitReason(live.record, await live.machine.exitReason()))
      return
    }
    if (isRunning && (await reconnects(live))) return
    if (round === CHECK_AFTER_MS.length) context.log.warn({ sessionId: live.record.id }, 'runner does not answer; retrying')
  }
}

/** A paused runner cannot answer; its link connects again when it is resumed. */
async function reconnects(live: LiveSession): Promise<boolean> {
  if (live.record.status !== 'running') return true
  return live.link.connect().then(
    () => true,
    () => false,
  )
}

function exitReason(record: SessionRecord, { limit, text }: MachineExit): Change {
  const reason = limit === 'memory_mb' ? 'out_of_memory' : 'runner_exited'
  if (limit === null) return { reason, error_message: text }
  const value = record[limit]
  return { reason, error_message: `${text}; ${limit} is ${value}`, limit_hit: { limit, value } }
}

/** Stores why a live session failed, and stops what is left of its machine. Files stay, so that the session can be started again. */
export async function failSession(context: SessionContext, live: LiveSession, why: () => Promise<Change>): Promise<void> {
  await context.mutex.run(live.record.id, async () => {
    if (context.live.get(live.record.id) !== live) return
    await transition(context, live.record, 'fail', await why())
    release(context, live)
    await live.machine.stop()
  })
}
