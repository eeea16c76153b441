// Server-sent events with backpressure: the next event is taken from the source when the client has room for it.
import type { ServerResponse } from 'node:http'
import type { SandglassError } from '@sandglass/contract'
import { type ReadTimeout, writeDrained } from '@sandglass/runner-link/backpressure'
import type { Logger } from '../../log.ts'
import type { SseEvent } from '../api.ts'
import { toSandglassError } from '../errors.ts'

const HEARTBEAT_MS = 15_000

export type EventOptions = {
  requestId: string
  slowReader: ReadTimeout
  closing: AbortSignal
  /** The last event when the daemon stops. */
  stopping: SandglassError<'SHUTTING_DOWN'>
  /** Adds the state of the session to the error of a lost connection. */
  explain: (error: unknown) => Promise<unknown>
  log: Logger
}

/** Ends when the source ends, when the client disconnects, or when the client has read nothing for too long. */
export async function sendEvents(
  response: ServerResponse,
  events: AsyncIterable<SseEvent>,
  { requestId, slowReader, closing, stopping, explain, log }: EventOptions,
): Promise<void> {
  response.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    'x-request-id': requestId,
  })
  response.flushHeaders()
  const heartbeat = setInterval(() => {
    if (!response.destroyed && !response.writableNeedDrain) response.write(': heartbeat\n\n')
  }, HEARTBEAT_MS)
  // Ends the reply also while the source gives no event.
  const stop = () => void response.end(encode({ event: 'error', data: stopping.toWire(requestId) }))
  closing.addEventListener('abort', stop)
  try {
    for await (const event of events) {
      if (isOver(response)) return
      await writeDrained(response, encode(event), slowReader)
      if (isOver(response)) return
    }
    if (!isOver(response)) response.end()
  } catch (error) {
    if (isOver(response)) return
    const failure = toSandglassError(await explain(error), log)
    if (isOver(response)) return
    if (failure.code === 'SLOW_READER') {
      log.warn({ seconds: slowReader.ms / 1000 }, 'slow reader disconnected')
      response.destroy()
      return
    }
    response.end(encode({ event: 'error', data: failure.toWire(requestId) }))
  } finally {
    clearInterval(heartbeat)
    closing.removeEventListener('abort', stop)
  }
}

const isOver = (response: ServerResponse) => response.destroyed || response.writableEnded

/** JSON.stringify writes no line breaks, so one data line is enough. */
function encode({ id, event, data }: SseEvent): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}

/** Gives the events ids from 1. */
export async function* numbered(events: AsyncIterable<SseEvent>): AsyncGenerator<SseEvent, void, undefined> {
  let id = 0
  for await (const event of events) yield { ...event, id: ++id }
}
