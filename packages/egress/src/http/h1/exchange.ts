// One request of an HTTP/1 client and its reply.
import type { Duplex } from 'node:stream'
import { Readable } from 'node:stream'
import { HttpError } from '../errors.ts'
import type { Exchange, HeaderList, OutgoingBody, RequestHead, ResponseHead } from '../message.ts'
import { type Sending, sendBody } from '../send-body.ts'
import { createDecoder } from './body-decoder.ts'
import type { ServerConnection } from './connection.ts'
import type { ParsedRequest } from './head.ts'
import { type BodyOwner, IncomingBody } from './incoming-body.ts'
import type { IdleListener } from './socket-reader.ts'
import { H1Sink } from './socket-writer.ts'
import { responseFraming, writeResponseHead } from './write-head.ts'

/** The rest of a body that the handler did not want is read up to here; beyond, the connection ends. */
const MAX_DISCARDED_BYTES = 256 * 1024

export class H1Exchange implements Exchange, BodyOwner, IdleListener {
  readonly head: RequestHead
  readonly body: IncomingBody | null
  readonly #connection: ServerConnection
  readonly #keepsHalfOpen: boolean
  #closes: boolean
  #awaitsContinue: boolean
  #gone: HttpError | null = null
  #controller: AbortController | null = null
  #sink: H1Sink | null = null
  #sending: Sending | null = null
  #outcome: 'none' | 'answered' | 'failed' | 'upgraded' = 'none'

  constructor(connection: ServerConnection, { head, framing, isPersistent, expectsContinue }: ParsedRequest) {
    this.head = head
    this.#connection = connection
    // A TLS client that ends its side has gone; a plain one may have nothing more to say.
    this.#keepsHalfOpen = head.scheme === 'http'
    this.#closes = !isPersistent
    this.#awaitsContinue = expectsContinue
    this.body = framing.kind === 'none' ? null : new IncomingBody(connection.reader, createDecoder(framing), this)
    connection.current = this
  }

  get bytesReceived(): number {
    return this.body?.bytes ?? 0
  }

  get bytesSent(): number {
    return this.#sink?.bytes ?? 0
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#gone !== null) this.#controller.abort(this.#gone)
    return this.#controller.signal
  }

  get isAnswered(): boolean {
    return this.#outcome !== 'none'
  }

  trailers(): HeaderList {
    return this.body?.trailers ?? []
  }

  async respond(head: ResponseHead, body: OutgoingBody, trailers?: () => HeaderList): Promise<void> {
    if (this.#outcome !== 'none') throw new Error('the request has been answered')
    const { writer } = this.#connection
    try {
      if (this.#gone !== null) throw this.#gone
      const version = this.head.version === '1.0' ? '1.0' : '1.1'
      const framing = responseFraming(head, body, this.head.method, version)
      this.#closes ||= framing.kind === 'until-close' || !this.#canDiscard()
      const text = writeResponseHead(head, framing, { version, closes: this.#closes, upgrade: null })
      this.#outcome = 'answered'
      writer.write(text)
      this.#sink = new H1Sink(writer, framing)
      if (framing.kind === 'none') {
        writer.flush()
        if (body instanceof Readable) body.destroy()
      } else {
        this.#sending = sendBody(body, this.#sink, trailers)
        await this.#sending.finished
      }
    } catch (error) {
      if (body instanceof Readable) body.destroy()
      // SECURITY: a reply that stops half-way must not look like a complete one.
      if (this.isAnswered) this.#fail()
      throw error
    }
  }

  upgrade(head: ResponseHead): Duplex {
    if (this.#outcome !== 'none') throw new Error('the request has been answered')
    if (this.#gone !== null) throw this.#gone
    const upgrade = head.status === 101 ? this.head.upgrade : null
    const text = writeResponseHead(head, { kind: 'none' }, { version: '1.1', closes: false, upgrade })
    this.#outcome = 'upgraded'
    this.#connection.writer.write(text)
    return this.#connection.detach()
  }

  /** After the handler: what happens to the connection. */
  async finish(): Promise<'next' | 'close' | 'upgraded'> {
    if (this.#outcome === 'upgraded') return 'upgraded'
    // A handler that did not wait for its reply.
    await this.#sending?.finished.catch(() => undefined)
    if (this.#outcome !== 'answered' || this.#closes || this.#gone !== null) return 'close'
    if (this.body !== null && !this.body.isComplete && !(await this.#discard(this.body))) return 'close'
    // SECURITY: a client that sends requests and reads no reply must not fill the memory.
    if (this.#connection.writer.needsDrain) await this.#connection.writer.drained()
    this.#connection.current = null
    return 'next'
  }

  onBodyStarted(): void {
    if (!this.#awaitsContinue || this.isAnswered) return
    this.#awaitsContinue = false
    this.#connection.writer.write('HTTP/1.1 100 Continue\r\n\r\n')
    this.#connection.writer.flush()
  }

  onBodyComplete(): void {
    this.#awaitsContinue = false
  }

  onBodyFailed(error: Error): void {
    if (!(error instanceof HttpError)) return
    this.#closes = true
    if (error.kind === 'client_gone') this.#abort(error)
  }

  asFailure(error: Error): Error {
    return error
  }

  onHeld(): void {
    // The next request waits until this one is answered.
  }

  onEnd(error: Error | null): void {
    const isComplete = this.body === null || this.body.isComplete
    if (error === null && this.#keepsHalfOpen && isComplete) this.#closes = true
    else this.#abort(new HttpError('client_gone', 'the client has closed the connection', { cause: error }))
  }

  onClosed(): void {
    this.#abort(new HttpError('client_gone', 'the client has closed the connection'))
  }

  #abort(reason: HttpError): void {
    if (this.#gone !== null) return
    this.#gone = reason
    this.#controller?.abort(reason)
    this.#sending?.stop(reason)
  }

  #fail(): void {
    this.#outcome = 'failed'
    this.#connection.writer.flush()
    this.#connection.socket.destroy()
  }

  /** A client that waits for 100 may or may not send its body after the reply: the next byte could be read in two ways. */
  #canDiscard(): boolean {
    if (this.body === null || this.body.isComplete) return true
    return !this.#awaitsContinue && (this.body.remaining ?? 0) <= MAX_DISCARDED_BYTES
  }

  async #discard(body: IncomingBody): Promise<boolean> {
    const timer = setTimeout(() => this.#connection.socket.destroy(), this.#connection.timeouts.lingerMs)
    const isDone = await body.discard(MAX_DISCARDED_BYTES)
    clearTimeout(timer)
    return isDone
  }
}
