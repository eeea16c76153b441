// One request of an HTTP/2 client and its reply.
import { constants, type ServerHttp2Stream } from 'node:http2'
import { type Duplex, Readable } from 'node:stream'
import { HttpError } from '../errors.ts'
import { isBodyless } from '../h1/head.ts'
import type { Exchange, HeaderList, OutgoingBody, RequestHead, ResponseHead } from '../message.ts'
import { sendBody } from '../send-body.ts'
import { H2Body } from './body.ts'
import { toRawHeaders, toTrailers, trailersFromRaw } from './headers.ts'
import { H2Sink } from './sink.ts'

export class H2Exchange implements Exchange {
  readonly head: RequestHead
  readonly body: H2Body | null
  readonly #stream: ServerHttp2Stream
  readonly #sink: H2Sink
  readonly #lingerMs: number
  #trailers: HeaderList = []
  #controller: AbortController | null = null
  #isAnswered = false
  #isDone = false

  constructor(stream: ServerHttp2Stream, head: RequestHead, expectsContinue: boolean, lingerMs: number) {
    this.head = head
    this.#lingerMs = lingerMs
    this.#stream = stream
    this.#sink = new H2Sink(stream)
    const events = {
      onStarted: () => {
        if (expectsContinue && !stream.headersSent && !stream.closed) stream.additionalHeaders({ ':status': 100 })
      },
      // The reply can still be sent.
      onAbandoned: () => undefined,
      cutOff: gone,
    }
    this.body = stream.endAfterHeaders ? null : new H2Body(stream, events)
    stream.on('trailers', (_headers, _flags, raw) => {
      this.#trailers = trailersFromRaw(raw)
    })
    stream.once('close', () => this.#isDone || this.#controller?.abort(gone()))
  }

  get bytesReceived(): number {
    return this.body?.bytes ?? 0
  }

  get bytesSent(): number {
    return this.#sink.bytes
  }

  get isAnswered(): boolean {
    return this.#isAnswered
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#stream.closed && !this.#isDone) this.#controller.abort(gone())
    return this.#controller.signal
  }

  trailers(): HeaderList {
    return this.#trailers
  }

  async respond(head: ResponseHead, body: OutgoingBody, trailers?: () => HeaderList): Promise<void> {
    if (this.#isAnswered) throw new Error('the request has been answered')
    const stream = this.#stream
    try {
      const headers = toRawHeaders([[':status', String(head.status)]], head.headers)
      if (stream.closed || stream.destroyed) throw gone()
      this.#isAnswered = true
      if (body === null || isBodyless(this.head.method, head.status)) {
        stream.respond(headers, { endStream: true })
        if (body instanceof Readable) body.destroy()
      } else {
        stream.on('wantTrailers', () => stream.sendTrailers(toTrailers(trailers?.() ?? [])))
        stream.respond(headers, { waitForTrailers: trailers !== undefined })
        const sending = sendBody(body, this.#sink)
        const onClose = () => sending.stop(gone())
        stream.once('close', onClose)
        await sending.finished
        stream.off('close', onClose)
      }
      this.#isDone = true
      if (this.body !== null && !this.body.readableEnded) this.#discard(this.body)
    } catch (error) {
      if (body instanceof Readable) body.destroy()
      // SECURITY: a reply that stops half-way must not look like a complete one.
      if (this.#isAnswered) stream.close(constants.NGHTTP2_INTERNAL_ERROR)
      throw error
    }
  }

  /** The rest of a body that nobody wants is dropped for a while. A reset at once would overtake the end of the reply. */
  #discard(body: H2Body): void {
    const stream = this.#stream
    const timer = setTimeout(() => stream.close(constants.NGHTTP2_NO_ERROR), this.#lingerMs)
    stream.once('close', () => clearTimeout(timer))
    body.destroy()
    stream.resume()
  }

  upgrade(): Duplex {
    throw new Error('an HTTP/2 stream cannot be upgraded')
  }

  /** For a handler that did not answer. */
  cancel(): void {
    this.#stream.close(constants.NGHTTP2_INTERNAL_ERROR)
  }
}

const gone = () => new HttpError('client_gone', 'the client has ended the stream')
