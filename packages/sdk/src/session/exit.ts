// Waits for the end of a session, across lost connections and restarts of the daemon.
import { FINAL_STATES, SandglassError, STARTABLE_STATES } from '@sandglass/contract/tables'
import { toCamel } from '../transport/case.ts'
import { isTransient } from '../transport/errors.ts'
import { follow } from '../transport/resume-events.ts'
import { backoff, type Transport } from '../transport/transport.ts'
import type { Cancel, SessionEvent, SessionInfo } from '../wire-types.ts'

/** States without a machine. A session can be started again from the first two. */
const ENDED: readonly SessionInfo['status'][] = [...STARTABLE_STATES, ...FINAL_STATES]
/** Backoff step while the daemon does not answer: about five seconds. */
const SLOW = 7

/**
 * Resolves with the state of the session when it has ended. `known` is an earlier reply, for a session whose row is removed meanwhile. Keeps
 * trying while the daemon does not answer, without keeping the program running.
 */
export async function untilExit(
  transport: Transport,
  ref: string,
  known: SessionInfo | undefined,
  cancel: Cancel,
): Promise<SessionInfo> {
  const call = { params: { id: ref }, background: true, ...cancel }
  const ask = () => transport.json('getSession', call)
  const info = await persistently(call, async () => {
    try {
      return await ask()
    } catch (error) {
      if (known && isGone(error)) return purged(known)
      throw error
    }
  })
  if (hasEnded(info)) return info
  // The events begin with the creation, and the session may have been stopped and started since.
  const since = info.startedAt ?? ''
  let isEarlier = info.status === 'starting'
  let lastEventId: string | undefined
  return persistently(call, async () => {
    try {
      for await (const { id, data } of follow(transport, 'sessionEvents', { ...call, lastEventId })) {
        const event = toCamel(JSON.parse(data)) as SessionEvent
        if (event.status === 'running' && event.createdAt > since) isEarlier = false
        if (event.createdAt >= since && hasEnded(event)) {
          const latest = await persistently(call, ask).catch(error => {
            if (isGone(error)) return undefined
            throw error
          })
          if (latest?.status === event.status) return latest
          if (!isEarlier) return { ...(latest ?? info), ...ending(event) }
        }
        lastEventId = id
      }
    } catch (error) {
      if (isGone(error)) return purged(info)
      throw error
    }
    throw new SandglassError('INTERNAL', { message: `the events of session ${ref} ended before it did` })
  })
}

const hasEnded = ({ status, reason }: Pick<SessionInfo, 'status' | 'reason'>) =>
  ENDED.includes(status) && reason !== 'created_without_start'

const ending = ({ status, reason, errorMessage }: SessionEvent) => ({ status, reason, errorMessage })

const isGone = (error: unknown) => error instanceof SandglassError && error.is('SESSION_NOT_FOUND')

/** The row of a running session is removed only by request. */
const purged = (info: SessionInfo): SessionInfo => ({ ...info, status: 'terminated', reason: 'requested' })

async function persistently<T>(call: { background: boolean } & Cancel, attempt: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      call.signal?.throwIfAborted()
      if (!isTransient(error)) throw error
    }
    await backoff(SLOW, call)
  }
}
