// Idempotency-Key: a request that is sent again gets the answer of the first, also while that one is still under way.
import { createHmac } from 'node:crypto'
import { SandglassError } from '@sandglass/contract'
import type { FastifyRequest } from 'fastify'
import { SingleFlight } from '../../lib/single-flight.ts'
import type { SessionContext } from '../../sessions/context.ts'
import { getSession } from '../../sessions/live.ts'
import type { SessionRecord } from '../../sessions/session-record.ts'
import { findIdempotency, storeIdempotency } from '../../store/idempotency.ts'
import type { IdempotencyRow } from '../../store/tables.ts'

export type Pending = Omit<IdempotencyRow, 'session_id'>

/**
 * Creates a session once per key. The key is stored with the session's row, so that not even a crash makes two. It is told to stop when
 * the last client that asked for it is gone.
 */
export function createOnce(
  context: SessionContext,
  request: FastifyRequest,
  body: unknown,
  create: (pending: Pending | null, stop: AbortSignal) => Promise<SessionRecord>,
  signal: AbortSignal,
): Promise<SessionRecord> {
  return once(context, request, 'createSession', body, signal, {
    run: create,
    replay: async ({ session_id }) => {
      const row = session_id === null ? null : await getSession(context, session_id)
      // A session that never came up is no answer: the request is tried again.
      return row === null || row.reason === 'start_failed' || row.reason === 'interrupted_create' ? null : row
    },
  })
}

export function answerOnce<T>(
  context: SessionContext,
  request: FastifyRequest,
  route: string,
  params: { id: string },
  body: unknown,
  run: () => Promise<T>,
): Promise<T> {
  return once(context, request, `${route} ${params.id}`, body, UNSTOPPABLE, {
    run: async pending => {
      const reply = await run()
      if (pending)
        await storeIdempotency(context.store, {
          ...pending,
          session_id: (await getSession(context, params.id)).id,
          response: JSON.stringify(reply),
        })
      return reply
    },
    replay: async ({ response }) => (response === null ? null : (JSON.parse(response) as T)),
  })
}

/** What has begun to run goes on without the client that asked for it. */
const UNSTOPPABLE = new AbortController().signal

type Once<T> = {
  run: (pending: Pending | null, stop: AbortSignal) => Promise<T>
  replay: (row: IdempotencyRow) => Promise<T | null>
}

type Answers = SingleFlight<unknown, { hash: string; end(): void }>
const underWay = new WeakMap<SessionContext, Answers>()

async function once<T>(
  context: SessionContext,
  request: FastifyRequest,
  route: string,
  body: unknown,
  signal: AbortSignal,
  { run, replay }: Once<T>,
): Promise<T> {
  const key = keyOf(request)
  if (key === null) return run(null, signal)
  // SECURITY: keyed, because a plain digest in the database would let somebody try out what the values of an environment were.
  const request_hash = createHmac('sha256', context.secretKey).update(JSON.stringify(body)).digest('base64url')
  const mine: Answers = underWay.get(context) ?? new SingleFlight()
  underWay.set(context, mine)
  signal.throwIfAborted()
  const name = `${route} ${key}`
  const flight = mine.start(
    name,
    () => ({ hash: request_hash, end: () => undefined }),
    async (_, stop) => {
      // An aborted request may have come too far to stop: its answer is then in the store.
      stop.throwIfAborted()
      return answered(stop)
    },
  )
  if (flight.progress.hash !== request_hash) throw new SandglassError('IDEMPOTENCY_MISMATCH', { key })
  return flight.join(signal) as Promise<T>

  async function answered(stop: AbortSignal): Promise<T> {
    const row = await findIdempotency(context.store, key ?? '', route, context.now())
    if (row && row.request_hash !== request_hash) throw new SandglassError('IDEMPOTENCY_MISMATCH', { key: row.key })
    const earlier = row ? await replay(row) : null
    return earlier ?? run({ key: key ?? '', route, request_hash, response: null, created_at: context.now() }, stop)
  }
}

function keyOf(request: FastifyRequest): string | null {
  const header = request.headers['idempotency-key']
  if (header === undefined) return null
  if (typeof header !== 'string' || !/^[\x21-\x7e]{1,128}$/.test(header)) {
    throw new SandglassError('INVALID_REQUEST', {
      issue: 'Idempotency-Key: must be 1 to 128 printable characters without spaces',
    })
  }
  return header
}
