// Sends the result of a handler in the form of its route's kind: JSON, events or bytes.
import { ROUTES, type Route, type RouteName } from '@sandglass/contract'
import { writeDrained } from '@sandglass/runner-link/backpressure'
import type { FastifyReply } from 'fastify'
import { explainLoss } from '../sessions/lifecycle/explain-loss.ts'
import { PagedReply } from '../sessions/pages.ts'
import type { Api, BytesReply, Call, Handlers, SseEvent } from './api.ts'
import { sessionOf, slowReader, stopping } from './errors.ts'
import { jsonBytes } from './streams/json.ts'
import { sendEvents } from './streams/sse.ts'

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
    if (result instanceof PagedReply) return await sendPages(api, response, result, call)
    return response
      .code(call.request.notReady ? 503 : status)
      .headers(JSON_TYPE)
      .send(await jsonBytes(result))
  }
  response.hijack()
  if (kind === 'sse') {
    const explain = (error: unknown) => explainLoss(api.context, sessionOf(call.request), error)
    const { closing } = api.context
    const options = {
      requestId: call.request.id,
      slowReader: slowReader(api.context.config.slow_reader_seconds),
      closing,
      stopping: stopping(call.request),
      explain,
      log: call.log,
    }
    await sendEvents(response.raw, result as AsyncIterable<SseEvent>, options)
  } else await sendBytes(api, response, result as BytesReply, call)
  return response
}

const JSON_TYPE = { 'content-type': 'application/json; charset=utf-8' }

/** A list of one page is sent whole. A failure before the second page is an ordinary error reply. */
async function sendPages(
  api: Api,
  response: FastifyReply,
  { head, pages }: AnyPages,
  call: Call<RouteName>,
): Promise<FastifyReply> {
  const whole = (items: readonly unknown[], tail: object) =>
    response.headers(JSON_TYPE).send(JSON.stringify({ ...head, items, ...tail }))
  const first = await pages.next()
  if (first.done) return whole([], first.value)
  const second = await pages.next()
  if (second.done) return whole(first.value, second.value)
  response.hijack()
  const chunks = encoded(head, [first.value, second.value], pages)
  await sendBytes(api, response, { headers: JSON_TYPE, chunks }, call)
  return response
}

type AnyPages = PagedReply<{ items: readonly unknown[] }>

async function* encoded(head: object, begun: readonly (readonly unknown[])[], pages: AnyPages['pages']) {
  try {
    yield Buffer.from(`${JSON.stringify(head).slice(0, -1)}${Object.keys(head).length > 0 ? ',' : ''}"items":`)
    let separator = '['
    const piece = (items: readonly unknown[]) => {
      const text = separator + JSON.stringify(items).slice(1, -1)
      separator = ','
      return Buffer.from(text)
    }
    yield* begun.map(piece)
    let page = await pages.next()
    for (; !page.done; page = await pages.next()) yield piece(page.value)
    yield Buffer.from(`],${JSON.stringify(page.value).slice(1)}`)
  } finally {
    await pages.return({})
  }
}

/** When the source fails in the middle, the connection is broken off, so that the client does not take a part for the whole. */
async function sendBytes(
  api: Api,
  { raw, request }: FastifyReply,
  { status = 200, headers, chunks, recycle, close }: BytesReply,
  call: Call<RouteName>,
): Promise<void> {
  const timeout = slowReader(api.context.config.slow_reader_seconds)
  raw.writeHead(status, { ...headers, 'x-request-id': request.id })
  try {
    for await (const chunk of chunks) {
      await writeDrained(raw, chunk, timeout, () => recycle?.(chunk))
      if (raw.destroyed) return
    }
    raw.end()
  } catch (err) {
    call.log.warn({ err }, 'reply body failed')
    // The new state of a lost session is stored before the client can ask for it.
    await explainLoss(api.context, sessionOf(call.request), err)
    raw.destroy()
  } finally {
    close?.()
  }
}
