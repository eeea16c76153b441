// Serves HTTP/2 on a TLS connection that has been accepted: each stream is an exchange for the handler.
import { performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import type { TLSSocket } from 'node:tls'
import { HttpError } from './errors.ts'
import { MAX_HEADERS } from './fields.ts'
import { DEFAULT_TIMEOUTS } from './h1/connection.ts'
import { checkDirection, MAX_HEAD_BYTES, type Origin, readAuthority } from './h1/head.ts'
import type { ServeOptions } from './h1-server.ts'
import { H2Exchange } from './h2/exchange.ts'
import { fromRawHeaders, type H2Fields } from './h2/headers.ts'
import type { Handler, RequestHead } from './message.ts'
import { errorReply, jsonReply, replyWith } from './reply.ts'
import { isTarget, isToken } from './syntax.ts'

const MAX_STREAMS = 100
const STREAM_WINDOW = 256 * 1024
/** SECURITY: a client that opens streams and resets them at once makes much work for few bytes. Beyond the burst, the connection ends. */
const RESET_BURST = 200
const RESETS_PER_SECOND = 20

/** Resolves when the connection is closed. Rejects with the first thing that a handler throws, unless it is an HttpError. */
export function serveHttp2(socket: TLSSocket, options: ServeOptions, handler: Handler): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const session = performServerHandshake(socket, {
    // WebSockets over HTTP/2 (RFC 8441) are not offered: clients use HTTP/1.1 for them.
    settings: {
      maxConcurrentStreams: MAX_STREAMS,
      maxHeaderListSize: MAX_HEAD_BYTES,
      initialWindowSize: STREAM_WINDOW,
      enableConnectProtocol: false,
    },
    maxHeaderListPairs: MAX_HEADERS,
    streamResetBurst: RESET_BURST,
    streamResetRate: RESETS_PER_SECOND,
    strictSingleValueFields: false,
  })
  const onReset = resetLimit(session)
  closeWhenIdle(session, options.timeouts?.idleMs ?? DEFAULT_TIMEOUTS.idleMs)
  // A connection that may be half open stays open when the client goes away.
  socket.once('end', () => socket.destroy())
  // An error is followed by a close, and each exchange hears of it from its own stream.
  session.on('error', () => undefined)
  session.once('close', resolve)
  session.on('stream', (stream, _headers, _flags, raw) => {
    stream.on('error', () => undefined)
    if (session.destroyed || stream.closed) return
    stream.once('close', () => stream.headersSent || onReset())
    serveStream(stream, raw, options, handler).catch(reject)
  })
  return promise
}

function closeWhenIdle(session: ServerHttp2Session, idleMs: number): void {
  // Streams that are open go on.
  session.setTimeout(idleMs, () => session.close())
}

/** node's own limit ends the connection too, but lets a handler start for each stream that has arrived before. */
function resetLimit(session: ServerHttp2Session): () => void {
  let left = RESET_BURST
  let at = performance.now()
  return () => {
    const now = performance.now()
    left = Math.min(RESET_BURST, left + ((now - at) / 1000) * RESETS_PER_SECOND) - 1
    at = now
    if (left < 0) session.destroy()
  }
}

async function serveStream(
  stream: ServerHttp2Stream,
  raw: readonly string[],
  options: ServeOptions,
  handler: Handler,
): Promise<void> {
  const exchange = await accept(stream, raw, options)
  if (exchange === null) return
  try {
    await handler(exchange)
    if (!exchange.isAnswered) exchange.cancel()
  } catch (error) {
    const isOurs = error instanceof HttpError
    if (!exchange.isAnswered) await answer(exchange, isOurs ? error : null)
    if (!isOurs) throw error
  }
}

async function accept(
  stream: ServerHttp2Stream,
  raw: readonly string[],
  { origin, onRefused, timeouts = DEFAULT_TIMEOUTS }: ServeOptions,
): Promise<H2Exchange | null> {
  try {
    const fields = fromRawHeaders(raw, 'request')
    return new H2Exchange(stream, toHead(fields, origin), fields.expect === '100-continue', timeouts.lingerMs)
  } catch (error) {
    if (!(error instanceof HttpError)) throw error
    onRefused(error, requestOf(raw))
    const refused: RequestHead = {
      version: '2',
      method: 'GET',
      scheme: 'https',
      host: '',
      port: 0,
      target: '',
      headers: [],
      upgrade: null,
    }
    await answer(new H2Exchange(stream, refused, false, timeouts.lingerMs), error)
    return null
  }
}

function requestOf(raw: readonly string[]): { method: string; target: string } | null {
  const [method, target] = [':method', ':path'].map(name => raw[raw.indexOf(name) + 1] ?? '')
  return method && target && isToken(method) && isTarget(target) ? { method, target } : null
}

function toHead(fields: H2Fields, origin: Origin): RequestHead {
  const { pseudo, headers } = fields
  const method = pseudo.get(':method') ?? ''
  const target = pseudo.get(':path') ?? ''
  if (method === 'CONNECT') throw new HttpError('unsupported', 'CONNECT is possible at the proxy port only')
  if (!isToken(method)) throw new HttpError('malformed', 'the request has no valid method')
  if (!isTarget(target) || !(target.startsWith('/') || (target === '*' && method === 'OPTIONS'))) {
    throw new HttpError('malformed', 'the request has no valid target')
  }
  if (pseudo.get(':scheme') !== origin.scheme)
    throw new HttpError('malformed', 'the request has another scheme than its connection')
  const { host, port } = authorityOf(fields, origin)
  checkDirection(host, port, origin)
  return { version: '2', method, scheme: origin.scheme, host, port, target, headers, upgrade: null }
}

/** SECURITY: a request that names two hosts could be decided by one of them and served by the other. */
function authorityOf({ pseudo, host }: H2Fields, origin: Origin): { host: string; port: number } {
  const named = [pseudo.get(':authority'), host]
    .filter(text => text !== undefined && text !== null)
    .map(text => readAuthority(text, origin))
    .map(authority => ({ host: authority.host, port: authority.port ?? origin.port }))
  const [first, second] = named
  if (first === undefined) throw new HttpError('malformed', 'the request does not name its host')
  if (second !== undefined && (second.host !== first.host || second.port !== first.port)) {
    throw new HttpError('malformed', 'the Host header is not the :authority')
  }
  return first
}

async function answer(exchange: H2Exchange, error: HttpError | null): Promise<void> {
  const reply =
    error === null ? jsonReply(500, { error: 'internal', message: 'the request could not be handled' }) : errorReply(error)
  try {
    await replyWith(exchange, reply)
  } catch {
    // The client has gone, and with it whoever wanted to know.
  }
}
