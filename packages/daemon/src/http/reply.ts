// How a handler's result is sent, by the kind of its route.
import { ROUTES, type Route, type RouteName } from '@sandglass/contract'
import type { FastifyReply } from 'fastify'
import { explainLoss } from '../sessions/lifecycle/explain-loss.ts'
import { PagedReply } from '../sessions/pages.ts'
import type { Api, BytesReply, Call, Handlers, SseEvent } from './api.ts'
import { sessionOf, stopping } from './errors.ts'
import { jsonBytes } from './streams/json.ts'
import { sendEvents } from './streams/sse.ts'
import { written } from './streams/written.ts'

export async function reply(
  api: Api,
  name: RouteName,
  handler: Handlers[RouteName],
  call: Call<RouteName>,
  response: FastifyReply,
): Promise<FastifyReply> {
  const { kind, status = 200 }: Route = ROUTES[name]
  const patienceMs = api.context.config.slow_reader_seconds * 1000
  const result = await (handler as (call: Call<RouteName>) => Promise<unknown>)(call)
  if (kind === 'json') {
    if (result instanceof PagedReply) return await sendPages(api, response, result, patienceMs, call)
    return response
      .code(call.request.notReady ? 503 : status)
      .headers(JSON_TYPE)
      .send(await jsonBytes(result))
  }
  response.hijack()
  if (kind === 'sse') {
    const explain = (error: unknown) => explainLoss(api.context, sessionOf(call.request), error)
    const { closing } = api.context
    const options = { requestId: call.request.id, patienceMs, closing, stopping: stopping(call.request), explain, log: call.log }
    await sendEvents(response.raw, result as AsyncIterable<SseEvent>, options)
  } else await sendBytes(api, response, result as BytesReply, patienceMs, call)
  return response
}

const JSON_TYPE = { 'content-type': 'application/json; charset=utf-8' }

/** What fails before the second page is a plain reply, and what fits one page is sent whole. */
async function sendPages(
  api: Api,
  response: FastifyReply,
  { head, pages }: AnyPages,
  patienceMs: number,
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
  await sendBytes(api, response, { headers: JSON_TYPE, chunks }, patienceMs, call)
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

/** A source that fails in the middle breaks the connection off, so that nobody takes a part for the whole. */
async function sendBytes(
  api: Api,
  { raw, request }: FastifyReply,
  { status = 200, headers, chunks, recycle, close }: BytesReply,
  patienceMs: number,
  call: Call<RouteName>,
): Promise<void> {
  raw.writeHead(status, { ...headers, 'x-request-id': request.id })
  try {
    for await (const chunk of chunks) {
      await written(raw, chunk, patienceMs, () => recycle?.(chunk))
      if (raw.destroyed) return
    }
    raw.end()
  } catch (err) {
    call.log.warn({ err }, 'body broken off')
    // Whoever asks what became of the session finds it stored.
    await explainLoss(api.context, sessionOf(call.request), err)
    raw.destroy()
  } finally {
    close?.()
  }
}
