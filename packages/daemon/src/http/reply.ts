// How a handler's result is sent, by the kind of its route.
import { ROUTES, type Route, type RouteName } from '@sandglass/contract'
import type { FastifyReply } from 'fastify'
import type { Api, BytesReply, Call, Handlers, SseEvent } from './api.ts'
import { jsonBytes } from './json.ts'
import { sendEvents } from './sse.ts'
import { written } from './written.ts'

export async function reply(
  api: Api,
  name: RouteName,
  handler: Handlers[RouteName],
  call: Call<RouteName>,
  response: FastifyReply,
): Promise<FastifyReply> {
  const { kind, status = 200 }: Route = ROUTES[name]
  const result = await (handler as (call: Call<RouteName>) => Promise<unknown>)(call)
  if (kind === 'json') {
    return response
      .code(call.request.notReady ? 503 : status)
      .header('content-type', 'application/json; charset=utf-8')
      .send(await jsonBytes(result))
  }
  response.hijack()
  if (kind === 'sse')
    await sendEvents(response.raw, result as AsyncIterable<SseEvent>, call.request.id, api.world.closing, call.log)
  else await sendBytes(response, result as BytesReply, call)
  return response
}

/** A source that fails in the middle breaks the connection off, so that nobody takes a part for the whole. */
async function sendBytes(
  { raw, request }: FastifyReply,
  { status = 200, headers, chunks, recycle, close }: BytesReply,
  call: Call<RouteName>,
): Promise<void> {
  raw.writeHead(status, { ...headers, 'x-request-id': request.id })
  try {
    for await (const chunk of chunks) {
      await written(raw, chunk, undefined, () => recycle?.(chunk))
      if (raw.destroyed) return
    }
    raw.end()
  } catch (err) {
    call.log.warn({ err }, 'body broken off')
    raw.destroy()
  } finally {
    close?.()
  }
}
