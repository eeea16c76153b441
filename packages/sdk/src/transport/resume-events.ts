// Event streams that resume with Last-Event-ID after a lost connection.
import type { RouteName } from '@sandglass/contract/tables'
import { SandglassError } from '@sandglass/contract/tables'
import { isTransient, unreachable, wireError } from './errors.ts'
import { readEvents, type SseEvent } from './sse.ts'
import { backoff, type CallOptions, type ResponseLike, type Transport } from './transport.ts'

type FollowOptions<Name extends RouteName> = CallOptions<Name> & {
  /** Continue after this event. */
  lastEventId?: string
  /** The query once an event has come; `query` when absent. */
  resumeQuery?: CallOptions<Name>['query']
  /** True for the last event of the stream: the end after it is no lost connection. */
  isLast?: (event: SseEvent) => boolean
  /** True for an event that is a failure of the stream; by default one of type error. */
  isFailure?: (event: SseEvent) => boolean
  /** True: the stream also ends when the daemon ends the reply. */
  endsItself?: boolean
  /** Called when a lost stream is open again. */
  onResume?: () => SseEvent | undefined
}

/** Attempts without an event between them before giving up: about 20 seconds. */
const PATIENCE = 9

export async function* follow<Name extends RouteName>(
  transport: Transport,
  name: Name,
  options: FollowOptions<Name>,
): AsyncGenerator<SseEvent, void, undefined> {
  let lastEventId = options.lastEventId
  let wasOpen = false
  let { query } = options
  const { isFailure = ({ type }) => type === 'error' } = options
  for (let failures = 0; ; failures++) {
    let lost: unknown = new Error('the stream ended')
    try {
      const headers: Record<string, string> = { ...options.headers, accept: 'text/event-stream' }
      if (lastEventId !== undefined) headers['last-event-id'] = lastEventId
      const response = await transport.open(name, { ...options, query, headers })
      const gap = wasOpen ? options.onResume?.() : undefined
      if (gap) yield gap
      wasOpen = true
      for await (const event of readEvents(bodyOf(response))) {
        failures = 0
        lastEventId = event.id ?? lastEventId
        query = options.resumeQuery ?? query
        if (isFailure(event)) throw streamError(event)
        yield event
        if (options.isLast?.(event)) return
      }
      if (options.endsItself) return
    } catch (error) {
      options.signal?.throwIfAborted()
      if (error instanceof SandglassError && !isTransient(error)) throw error
      lost = error
    }
    if (failures >= PATIENCE) throw lost instanceof SandglassError ? lost : unreachable(transport.options.address, lost)
    await backoff(failures, options)
  }
}

/** The events of a stream that ends by itself. A connection that is lost before the end is an error. */
export async function* readToEnd<Name extends RouteName>(
  transport: Transport,
  name: Name,
  options: CallOptions<Name>,
): AsyncGenerator<SseEvent, void, undefined> {
  const response = await transport.open(name, { ...options, headers: { ...options.headers, accept: 'text/event-stream' } })
  try {
    for await (const event of readEvents(bodyOf(response))) {
      if (event.type === 'error') throw streamError(event)
      yield event
    }
  } catch (error) {
    options.signal?.throwIfAborted()
    throw error instanceof SandglassError ? error : unreachable(transport.options.address, error)
  }
}

/** The error in an `error` event. */
export function streamError(event: SseEvent): SandglassError {
  const wire = wireError(event.data)
  return wire ? SandglassError.fromWire(wire) : new SandglassError('INTERNAL', { message: event.data })
}

export function bodyOf(response: ResponseLike): ReadableStream<Uint8Array> {
  if (!response.body) throw new SandglassError('INTERNAL', { message: 'the reply has no body' })
  return response.body
}
