// Server-sent events: what the source gives is written as the reader takes it. While the reader is full the source is not asked for more.
import type { ServerResponse } from 'node:http'
import type { SandglassError } from '@sandglass/contract'
import type { Logger } from '../../log.ts'
import type { SseEvent } from '../api.ts'
import { toSandglassError } from '../errors.ts'
import { written } from './written.ts'

const HEARTBEAT_MS = 15_000

export type EventOptions = {
  requestId: string
  /** How long a client may take nothing. */
  patienceMs: number
  closing: AbortSignal
  /** What the client is told when the daemon stops. */
  stopping: SandglassError<'SHUTTING_DOWN'>
  /** Adds to an error what is known of it. */
  explain: (error: unknown) => Promise<unknown>
  log: Logger
}

/** Ends when the source ends, the client goes away, or the client has taken nothing for too long. */
export async function sendEvents(
  response: ServerResponse,
  events: AsyncIterable<SseEvent>,
  { requestId, patienceMs, closing, stopping, explain, log }: EventOptions,
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
  // A source that is silent does not keep the daemon from stopping.
  const stop = () => void response.end(encode({ event: 'error', data: stopping.toWire(requestId) }))
  closing.addEventListener('abort', stop)
  try {
    for await (const event of events) {
      if (isOver(response)) return
      await written(response, encode(event), patienceMs)
      if (isOver(response)) return
    }
    if (!isOver(response)) response.end()
  } catch (error) {
    if (isOver(response)) return
    const failure = toSandglassError(await explain(error), log)
    if (isOver(response)) return
    if (failure.code === 'SLOW_READER') {
      log.warn({ seconds: patienceMs / 1000 }, 'slow reader cut off')
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

/** JSON has no line breaks of its own, so one data line holds it. */
function encode({ id, event, data }: SseEvent): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}

export async function* numbered(events: AsyncIterable<SseEvent>): AsyncGenerator<SseEvent, void, undefined> {
  let id = 0
  for await (const event of events) yield { ...event, id: ++id }
}
