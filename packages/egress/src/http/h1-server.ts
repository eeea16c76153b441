// Serves HTTP/1.1 on a connection: one request after the other, each answered by the handler before the next is looked at.
import type { Duplex } from 'node:stream'
import { HttpError } from './errors.ts'
import { DEFAULT_TIMEOUTS, ServerConnection, type ServerTimeouts } from './h1/connection.ts'
import { H1Exchange } from './h1/exchange.ts'
import { type Origin, parseRequestHead } from './h1/head.ts'
import { writeResponseHead } from './h1/write-head.ts'
import type { Handler } from './message.ts'
import { errorReply, jsonReply, replyWith } from './reply.ts'
import { isTarget, isToken } from './syntax.ts'

export interface ServeOptions {
  readonly origin: Origin
  /** A request was refused before the handler saw it. The request line is as the client sent it, if it is a valid one. */
  onRefused(error: HttpError, request: { readonly method: string; readonly target: string } | null): void
  readonly timeouts?: ServerTimeouts
}

/**
 * Resolves when the connection needs no more care: it is closed, closing, or upgraded. Rejects with what a handler throws, unless it is an
 * HttpError, which becomes the reply.
 */
export async function serveHttp1(socket: Duplex, options: ServeOptions, handler: Handler): Promise<void> {
  const connection = new ServerConnection(socket, options.timeouts ?? DEFAULT_TIMEOUTS)
  let next: 'next' | 'close' | 'upgraded' = 'next'
  try {
    while (next === 'next') {
      const exchange = await nextExchange(connection, options)
      next = exchange === null ? 'close' : await serveOne(exchange, handler)
    }
  } finally {
    if (next !== 'upgraded') connection.close()
  }
}

async function serveOne(exchange: H1Exchange, handler: Handler): Promise<'next' | 'close' | 'upgraded'> {
  try {
    await handler(exchange)
  } catch (error) {
    await answerFailure(exchange, error)
    if (!(error instanceof HttpError)) throw error
  }
  return await exchange.finish()
}

async function nextExchange(connection: ServerConnection, { origin, onRefused }: ServeOptions): Promise<H1Exchange | null> {
  let text: string | null = null
  try {
    text = await connection.nextHead()
    return text === null ? null : new H1Exchange(connection, parseRequestHead(text, origin))
  } catch (error) {
    if (!(error instanceof HttpError)) throw error
    if (error.kind === 'client_gone') return null
    onRefused(error, text === null ? null : requestLine(text))
    const { status, headers, body } = errorReply(error)
    const line = { version: '1.1', closes: true, upgrade: null } as const
    connection.writer.write(writeResponseHead({ status, headers }, { kind: 'length', length: body.length }, line))
    connection.writer.write(body)
    return null
  }
}

function requestLine(text: string): { method: string; target: string } | null {
  const [method = '', target = ''] = text.slice(0, text.indexOf('\r\n')).split(' ', 2)
  return isToken(method) && isTarget(target) ? { method, target } : null
}

async function answerFailure(exchange: H1Exchange, error: unknown): Promise<void> {
  if (exchange.isAnswered) return
  const reply =
    error instanceof HttpError
      ? errorReply(error)
      : jsonReply(500, { error: 'internal', message: 'the request could not be handled' })
  try {
    await replyWith(exchange, reply)
  } catch {
    // The client has gone, and with it whoever wanted to know.
  }
}
