// One small request to a running session's runner, with the lease held while it runs.
import type { Reply } from '../../runner-link/control.ts'
import type { RunnerStream } from '../../runner-link/stream.ts'
import type { Fields } from '../../runner-link/wire.ts'
import type { SessionContext } from '../context.ts'
import { hold } from '../lease/lease.ts'
import { type LiveSession, runningSession } from '../live.ts'

export type Answer = Reply & { live: LiveSession }

export async function ask(
  context: SessionContext,
  ref: string,
  type: string,
  fields: Fields = {},
  body?: Uint8Array,
): Promise<Answer> {
  const live = await runningSession(context, ref, 'reach')
  const release = hold(context, live)
  try {
    return { ...(await live.link.request(type, fields, body ? { body } : {})), live }
  } finally {
    release()
  }
}

/** The same for a question that is no use of the session: it does not move the lease. */
export async function look(context: SessionContext, ref: string, type: string): Promise<Answer> {
  const live = await runningSession(context, ref, 'reach')
  return { ...(await live.link.request(type)), live }
}

export type HeldStream = {
  stream: RunnerStream
  live: LiveSession
  /** Closes the stream and lets go of the lease. Idempotent. */
  close: () => void
}

/** A stream of its own. Whoever takes it closes it. */
export async function askStream(
  context: SessionContext,
  ref: string,
  type: string,
  fields: Fields,
  signal?: AbortSignal,
): Promise<HeldStream> {
  const live = await runningSession(context, ref, 'reach')
  const release = hold(context, live)
  try {
    const stream = await live.link.stream(type, fields, signal ? { signal } : {})
    return {
      stream,
      live,
      close: () => {
        stream.close()
        release()
      },
    }
  } catch (error) {
    release()
    throw error
  }
}

/** A stream that does not hold the lease. */
export async function lookStream(context: SessionContext, ref: string, type: string, signal: AbortSignal): Promise<HeldStream> {
  const live = await runningSession(context, ref, 'reach')
  const stream = await live.link.stream(type, {}, { signal })
  return { stream, live, close: () => stream.close() }
}
