// An HTTP/2 connection to a server. It carries the requests of one route, many at once.
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2'
import type { TLSSocket } from 'node:tls'
import { asUpstreamError, HttpError } from '../errors.ts'
import { H2Body } from '../h2/body.ts'
import { fromRawHeaders, toRawHeaders, toTrailers, trailersFromRaw } from '../h2/headers.ts'
import { H2Sink } from '../h2/sink.ts'
import { type HeaderList, without } from '../message.ts'
import { sendBody } from '../send-body.ts'
import { writeAuthority } from '../syntax.ts'
import {
  MAX_INFORMATIONAL,
  type Reply,
  StaleConnectionError,
  type UpstreamConnection,
  type UpstreamRequest,
} from './connection.ts'

const IDLE_MS = 30_000
const RESPONSE_MS = 600_000
/** Bytes of one body that may be under way, and of all together. */
const STREAM_WINDOW = 1024 * 1024
const SESSION_WINDOW = 4 * 1024 * 1024

export class H2Connection implements UpstreamConnection {
  readonly protocol = '2'
  readonly address: string | null
  readonly #session: ClientHttp2Session
  #isAway = false
  #requests = 0

  constructor(socket: TLSSocket, address: string | null, onClosed: (connection: H2Connection) => void) {
    this.address = address
    const options = {
      createConnection: () => socket,
      settings: { enablePush: false, initialWindowSize: STREAM_WINDOW },
      // Known to node, and missing in the declared type: headers that occur twice are passed on as they are.
      strictSingleValueFields: false,
    }
    this.#session = connect('https://upstream.invalid', options)
    // A connection that may be half open stays open when the server goes away.
    socket.once('end', () => socket.destroy())
    // An error is followed by a close, and each request hears of it from its own stream.
    this.#session.on('error', () => undefined)
    this.#session.on('connect', session => session.setLocalWindowSize(SESSION_WINDOW))
    this.#session.on('goaway', () => {
      this.#isAway = true
    })
    this.#session.once('close', () => onClosed(this))
    this.#session.setTimeout(IDLE_MS, () => this.#session.close())
  }

  get isUsable(): boolean {
    return !this.#isAway && !this.#session.closed && !this.#session.destroyed
  }

  destroy(): void {
    this.#session.destroy()
  }

  async send({ head, body, trailers, signal }: UpstreamRequest): Promise<Reply> {
    signal.throwIfAborted()
    if (!this.isUsable) throw new StaleConnectionError('the server has closed the connection')
    const pseudo = [
      [':method', head.method],
      [':authority', writeAuthority(head.scheme, head.host, head.port)],
      [':scheme', head.scheme],
      [':path', head.target],
    ] as const
    this.#requests += 1
    // The body is sent at once, and nobody waits for a 100.
    const stream = this.#session.request(toRawHeaders(pseudo, without(head.headers, 'expect')), {
      endStream: body === null,
      waitForTrailers: body !== null && trailers !== undefined,
      signal,
    })
    const failure = Promise.withResolvers<never>()
    failure.promise.catch(() => undefined) // whoever waits for the reply or its body is told
    stream.on('error', () => undefined)
    stream.on('wantTrailers', () => stream.sendTrailers(toTrailers(trailers?.() ?? [])))
    if (body !== null) {
      const sending = sendBody(body, new H2Sink(stream))
      sending.finished.catch(error => {
        failure.reject(error)
        stream.close(constants.NGHTTP2_CANCEL)
      })
      stream.once('close', () => sending.stop(new Error('the server has ended the request')))
    }
    try {
      return await Promise.race([receive(stream), failure.promise])
    } catch (error) {
      signal.throwIfAborted()
      const isStale = this.#requests > 1 && this.#session.destroyed && stream.rstCode !== constants.NGHTTP2_INTERNAL_ERROR
      throw isStale ? new StaleConnectionError('the server closed a connection that it had kept open', { cause: error }) : error
    }
  }
}

function receive(stream: ClientHttp2Stream): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>()
  let trailers: HeaderList = []
  let informational = 0
  const timer = setTimeout(() => fail(new HttpError('upstream_timeout', 'the server did not answer in time')), RESPONSE_MS)
  const fail = (error: Error) => {
    clearTimeout(timer)
    reject(error)
    stream.close(constants.NGHTTP2_CANCEL)
  }
  stream.on('headers', () => {
    informational += 1
    if (informational > MAX_INFORMATIONAL)
      fail(new HttpError('upstream_malformed', 'the server sent too many informational replies'))
  })
  stream.on('trailers', (_headers, _flags, raw) => {
    trailers = trailersFromRaw(raw)
  })
  stream.once('response', (_headers, flags, raw) => {
    clearTimeout(timer)
    try {
      const { pseudo, headers } = fromRawHeaders(raw, 'response')
      const hasBody = (flags & constants.NGHTTP2_FLAG_END_STREAM) === 0
      const body = hasBody ? new H2Body(stream, bodyEvents(stream)) : null
      if (body === null) stream.resume()
      resolve({ head: { status: Number(pseudo.get(':status')), headers }, body, trailers: () => trailers, tunnel: null })
    } catch (error) {
      fail(asUpstreamError(error))
    }
  })
  stream.once('close', () => fail(closedError(stream)))
  return promise
}

const bodyEvents = (stream: ClientHttp2Stream) => ({
  onStarted: () => undefined,
  onAbandoned: () => stream.close(constants.NGHTTP2_CANCEL),
  cutOff: () => new HttpError('upstream_closed', 'the server closed the connection too early'),
})

/** REFUSED_STREAM says that the server has not looked at the request. */
function closedError(stream: ClientHttp2Stream): Error {
  if (stream.rstCode === constants.NGHTTP2_REFUSED_STREAM) return new StaleConnectionError('the server refused the stream')
  return new HttpError('upstream_closed', 'the server ended the request without a reply', { cause: stream.errored })
}
