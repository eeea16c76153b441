// inside/ is what the API does in a running sandbox; the runner does the work. This file sends it one request: `request` and `requestStream`
// count as use of the session and hold its lease while they run, `query` and `queryStream` do not.
import type { Reply } from '@sandglass/runner-link/control'
import type { RunnerStream } from '@sandglass/runner-link/stream'
import type { Fields } from '@sandglass/runner-link/wire'
import type { SessionContext } from '../context.ts'
import { hold } from '../lease/lease.ts'
import { type LiveSession, runningSession } from '../live.ts'

type Answer = Reply & { live: LiveSession }

export async function request(
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

export async function query(context: SessionContext, ref: string, type: string): Promise<Answer> {
  const live = await runningSession(context, ref, 'reach')
  return { ...(await live.link.request(type)), live }
}

export type SessionStream = {
  stream: RunnerStream
  live: LiveSession
  /** Closes the stream and releases the lease if it is held. Idempotent. */
  close: () => void
}

/** The caller closes the stream. */
export async function requestStream(
  context: SessionContext,
  ref: string,
  type: string,
  fields: Fields,
  signal?: AbortSignal,
): Promise<SessionStream> {
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

/** The caller closes the stream. */
export async function queryStream(
  context: SessionContext,
  ref: string,
  type: string,
  signal: AbortSignal,
): Promise<SessionStream> {
  const live = await runningSession(context, ref, 'reach')
  const stream = await live.link.stream(type, {}, { signal })
  return { stream, live, close: () => stream.close() }
}
