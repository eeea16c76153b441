// Idempotency-Key: a repeated request gets the reply of the first one, also while the first one is still running.
import { createHmac } from 'node:crypto'
import { LIVE_STATES, PATHS, SandglassError } from '@sandglass/contract'
import type { FastifyRequest } from 'fastify'
import { SingleFlight } from '../../lib/single-flight.ts'
import type { SessionContext } from '../../sessions/context.ts'
import { getSession } from '../../sessions/live.ts'
import type { SessionRecord } from '../../sessions/session-record.ts'
import { findIdempotency, type PendingRequest, storeIdempotency } from '../../store/idempotency.ts'
import type { IdempotencyRow } from '../../store/tables.ts'

/**
 * Creates one session per key. The key is stored in the same transaction as the session, so that not even a crash leads to two sessions.
 * The create is aborted when the last client that waits for it disconnects.
 */
export async function createOnce(
  context: SessionContext,
  request: FastifyRequest,
  body: unknown,
  create: (pending: PendingRequest | null, signal: AbortSignal) => Promise<SessionRecord>,
  signal: AbortSignal,
): Promise<SessionRecord> {
  const key = keyOf(request)
  if (key === null) return create(null, signal)
  return once(context, { key, route: routeOf('createSession'), body }, signal, {
    run: create,
    replay: async ({ resource_id }) => {
      const record = await getSession(context, resource_id)
      // A session that never started is no reply: the create runs again.
      return record.reason === 'start_failed' || record.reason === 'interrupted_create' ? null : record
    },
  })
}

/** Creates the tasks of one request once. The key is stored in the same transaction as the tasks. */
export async function createTasksOnce<T>(
  context: SessionContext,
  request: FastifyRequest,
  body: unknown,
  { run, replay }: { run: (pending: PendingRequest | null) => Promise<T>; replay: (ids: string[]) => Promise<T> },
): Promise<T> {
  const key = keyOf(request)
  if (key === null) return run(null)
  return once(context, { key, route: routeOf('createTask'), body }, NEVER_ABORTED, {
    run,
    replay: async ({ response }) => (response === null ? null : replay(JSON.parse(response) as string[])),
  })
}

/** Creates one thing per key inside a session. `run` gets the id of the session, whatever the request called it. */
export async function createInsideOnce<T>(
  context: SessionContext,
  request: FastifyRequest,
  name: 'createShell' | 'startProcess',
  ref: string,
  body: unknown,
  run: (sessionId: string) => Promise<T>,
): Promise<T> {
  const key = keyOf(request)
  if (key === null) return run(ref)
  // A name can belong to another session tomorrow; the key belongs to this one.
  const { id } = await getSession(context, ref)
  return once(context, { key, route: routeOf(name, id), body }, NEVER_ABORTED, {
    run: async pending => {
      const reply = await run(id)
      const response = JSON.stringify(reply)
      await storeIdempotency(context.store, { ...pending, resource_kind: 'session', resource_id: id, response })
      return reply
    },
    // Shells and processes end with their machine. The reply about one of an earlier machine would name what is gone.
    replay: async ({ response, created_at }) => {
      const { status, started_at } = await getSession(context, id)
      const isSameMachine = LIVE_STATES.includes(status) && (started_at ?? 0) <= created_at
      return response !== null && isSameMachine ? (JSON.parse(response) as T) : null
    },
  })
}

/** A process or shell that is being started outlives the client that asked for it. */
const NEVER_ABORTED = new AbortController().signal

const routeOf = (name: 'createSession' | 'createTask' | 'createShell' | 'startProcess', id = ''): string =>
  `${PATHS[name].method} ${PATHS[name].path.replace('{id}', id)}`

type Keyed = { key: string; route: string; body: unknown }
type Once<T> = {
  run: (pending: PendingRequest, signal: AbortSignal) => Promise<T>
  /** The reply of the stored request, or null to run it again. */
  replay: (row: IdempotencyRow) => Promise<T | null>
}

type Flights = SingleFlight<unknown, { hash: string; end(): void }>
const flightsOf = new WeakMap<SessionContext, Flights>()

async function once<T>(
  context: SessionContext,
  { key, route, body }: Keyed,
  signal: AbortSignal,
  { run, replay }: Once<T>,
): Promise<T> {
  // SECURITY: an HMAC, because a plain digest in the database would let a reader test guesses of environment values.
  const request_hash = createHmac('sha256', context.secretKey).update(JSON.stringify(body)).digest('base64url')
  const flights: Flights = flightsOf.get(context) ?? new SingleFlight()
  flightsOf.set(context, flights)
  signal.throwIfAborted()
  const flight = flights.start(
    `${route} ${key}`,
    () => ({ hash: request_hash, end: () => undefined }),
    async (_, stop) => {
      // An aborted request may have gone too far to stop. Its reply is then in the store.
      stop.throwIfAborted()
      return replayOrRun(stop)
    },
  )
  if (flight.progress.hash !== request_hash) throw new SandglassError('IDEMPOTENCY_MISMATCH', { key })
  return flight.join(signal) as Promise<T>

  async function replayOrRun(stop: AbortSignal): Promise<T> {
    const now = context.now()
    const row = await findIdempotency(context.store, key, route, now)
    if (row && row.request_hash !== request_hash) throw new SandglassError('IDEMPOTENCY_MISMATCH', { key })
    const earlier = row ? await replay(row) : null
    return earlier ?? run({ key, route, request_hash, response: null, created_at: now }, stop)
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
