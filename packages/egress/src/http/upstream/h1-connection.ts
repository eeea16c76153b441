// An HTTP/1.1 connection to a server. It carries one exchange at a time.
import type { Duplex } from 'node:stream'
import { asUpstreamError, HttpError } from '../errors.ts'
import { createDecoder } from '../h1/body-decoder.ts'
import { type Framing, type ParsedResponse, parseResponseHead } from '../h1/head.ts'
import { type BodyOwner, IncomingBody } from '../h1/incoming-body.ts'
import { readHead } from '../h1/read-head.ts'
import { type IdleListener, SocketReader } from '../h1/socket-reader.ts'
import { H1Sink, SocketWriter } from '../h1/socket-writer.ts'
import { type PlainProxy, requestFraming, writeRequestHead } from '../h1/write-head.ts'
import { type RequestHead, valuesOf } from '../message.ts'
import { asError, type Sending, sendBody } from '../send-body.ts'
import {
  MAX_INFORMATIONAL,
  type Reply,
  StaleConnectionError,
  type UpstreamConnection,
  type UpstreamRequest,
} from './connection.ts'

/** A server that takes longer to begin its reply is given up. */
const RESPONSE_MS = 600_000
/** A server that does not answer `Expect: 100-continue` gets the body after this time. */
const CONTINUE_MS = 1_000

export interface H1Events {
  /** The exchange is over, and another may follow within `idleSeconds`, if the server has said how long it waits. */
  onFree(connection: H1Connection, idleSeconds: number | null): void
  onClosed(connection: H1Connection): void
}

export class H1Connection implements UpstreamConnection, BodyOwner, IdleListener {
  readonly protocol = '1.1'
  readonly address: string | null
  readonly #reader: SocketReader
  readonly #writer: SocketWriter
  readonly #events: H1Events
  readonly #plainProxy: PlainProxy | null
  readonly #timer: NodeJS.Timeout
  #exchanges = 0
  #isWaiting = false
  #sending: Sending | null = null
  #isSent = true
  #response: ParsedResponse | null = null
  #signal: AbortSignal | null = null
  #failure: Error | null = null
  #isClosed = false

  constructor(socket: Duplex, address: string | null, plainProxy: PlainProxy | null, events: H1Events) {
    this.address = address
    this.#plainProxy = plainProxy
    this.#events = events
    this.#reader = new SocketReader(socket, this)
    this.#writer = new SocketWriter(socket)
    this.#timer = setTimeout(this.#onLate, RESPONSE_MS)
    socket.once('close', () => {
      this.#isClosed = true
      clearTimeout(this.#timer)
      this.#end()
      events.onClosed(this)
    })
  }

  /** SECURITY: bytes that arrive before a request was sent would be taken for the reply to it. */
  get isUsable(): boolean {
    return !this.#isClosed && !this.#reader.hasEnded && !this.#reader.hasBytes && !this.#reader.socket.destroyed
  }

  destroy(): void {
    this.#reader.socket.destroy()
  }

  async send(request: UpstreamRequest): Promise<Reply> {
    try {
      return await this.#exchange(request)
    } catch (error) {
      this.#isWaiting = false
      this.destroy()
      if (this.#failure !== null) throw this.#failure
      throw error instanceof StaleConnectionError ? error : asUpstreamError(error)
    }
  }

  async #exchange({ head, body, trailers, signal }: UpstreamRequest): Promise<Reply> {
    const framing = requestFraming(head, body)
    this.#begin(signal)
    this.#writer.write(this.#writeHead(head, framing))
    const start = () => this.#sendBody(sendBody(body, new H1Sink(this.#writer, framing), trailers))
    const waits = body !== null && valuesOf(head.headers, 'expect').length > 0
    if (body === null) this.#onSent()
    else if (!waits) start()
    if (body === null || waits) this.#writer.flush()
    return this.#toReply(await this.#receive(head, waits ? start : null))
  }

  /** A head that cannot be written is not the server's fault. */
  #writeHead(head: RequestHead, framing: Framing): string {
    try {
      return writeRequestHead(head, framing, this.#plainProxy)
    } catch (error) {
      this.#failure = asError(error)
      throw error
    }
  }

  onBodyStarted(): void {
    // The server sends when it likes.
  }

  onBodyComplete(): void {
    this.#finish()
  }

  onBodyFailed(): void {
    this.destroy()
  }

  asFailure(error: Error): Error {
    return asUpstreamError(error)
  }

  /** SECURITY: a server that sends without being asked prepares a reply to the next request. */
  onHeld(): void {
    if (this.#signal === null) this.destroy()
  }

  /** While a body waits for its reader, its bytes are held, and the end comes after them. */
  onEnd(): void {
    if (this.#signal === null) this.destroy()
  }

  #begin(signal: AbortSignal): void {
    this.#exchanges += 1
    this.#response = null
    this.#isSent = false
    this.#signal = signal
    this.#failure = null
    if (signal.aborted) this.#onAbort()
    signal.addEventListener('abort', this.#onAbort)
    this.#isWaiting = true
    this.#timer.refresh()
  }

  #sendBody(sending: Sending): void {
    this.#sending = sending
    sending.finished.then(this.#onSent, this.#onSendFailed)
  }

  #onSent = (): void => {
    this.#isSent = true
    this.#sending = null
  }

  #onSendFailed = (error: Error): void => {
    this.#sending = null
    // The reply may be complete already, and with it the exchange.
    if (this.#signal === null) return
    this.#failure ??= error
    this.destroy()
  }

  #onAbort = (): void => {
    this.#failure ??= this.#signal?.reason instanceof Error ? this.#signal.reason : new Error('the request was aborted')
    this.destroy()
  }

  #onLate = (): void => {
    if (this.#isWaiting) this.#reader.interrupt(new HttpError('upstream_timeout', 'the server did not answer in time'))
    // Taken and never used.
    else if (this.#signal === null) this.destroy()
  }

  async #receive({ method, upgrade }: RequestHead, startBody: (() => void) | null): Promise<ParsedResponse> {
    let start = startBody
    const timer = start === null ? undefined : setTimeout(() => start?.(), CONTINUE_MS)
    try {
      for (let count = 0; count <= MAX_INFORMATIONAL; count += 1) {
        const text = await readHead(this.#reader)
        if (text === null) throw this.#closedSilently(count)
        const response = parseResponseHead(text, method)
        const { status } = response.head
        if (status >= 200) return response
        if (status === 101) {
          if (upgrade === null || response.upgrade !== upgrade)
            throw new HttpError('upstream_malformed', 'the server changed the protocol unasked')
          return response
        }
        if (status === 100) {
          start?.()
          start = null
        }
      }
      throw new HttpError('upstream_malformed', 'the server sent too many informational replies')
    } finally {
      start = null
      clearTimeout(timer)
    }
  }

  #closedSilently(informational: number): Error {
    const isStale = this.#exchanges > 1 && informational === 0
    const message = 'the server closed the connection without a reply'
    return isStale ? new StaleConnectionError(message) : new HttpError('upstream_closed', message)
  }

  #toReply(response: ParsedResponse): Reply {
    const { head, framing } = response
    this.#isWaiting = false
    this.#response = response
    if (head.status === 101) {
      this.#end()
      clearTimeout(this.#timer)
      return { head, body: null, trailers: () => [], tunnel: this.#reader.detach() }
    }
    if (framing.kind === 'none') {
      this.#finish()
      return { head, body: null, trailers: () => [], tunnel: null }
    }
    const body = new IncomingBody(this.#reader, createDecoder(framing), this)
    return { head, body, trailers: () => body.trailers, tunnel: null }
  }

  /** The reply is complete. */
  #finish(): void {
    const response = this.#response
    const isReusable = this.#isSent && response?.isPersistent === true
    this.#end()
    if (isReusable && this.isUsable) this.#events.onFree(this, response.idleSeconds)
    else this.destroy()
  }

  #end(): void {
    this.#signal?.removeEventListener('abort', this.#onAbort)
    this.#signal = null
    this.#sending?.stop(new Error('the server has answered'))
    this.#sending = null
  }
}
