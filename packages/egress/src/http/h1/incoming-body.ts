// The body of an HTTP/1 message that arrives: a Readable for whoever looks into it, and a direct way to another connection for everyone else.
import { Readable } from 'node:stream'
import { HttpError } from '../errors.ts'
import type { HeaderList } from '../message.ts'
import type { BodySink, Sending } from '../send-body.ts'
import type { BodyDecoder } from './body-decoder.ts'
import type { Consumer, SocketReader } from './socket-reader.ts'

/** What the connection that the body arrives on has to know. */
export interface BodyOwner {
  /** Somebody wants the first byte. */
  onBodyStarted(): void
  onBodyComplete(): void
  /** The body is malformed or cut off, or nobody wants the rest of it. */
  onBodyFailed(error: Error): void
  /** What readers of the body are told: whose fault it is depends on who sends it. */
  asFailure(error: Error): Error
}

type Mode = 'untouched' | 'stream' | 'forward' | 'discard' | 'abandoned' | 'complete'

export class IncomingBody extends Readable implements Consumer {
  readonly #reader: SocketReader
  readonly #decoder: BodyDecoder
  readonly #owner: BodyOwner
  #mode: Mode = 'untouched'
  #sink: BodySink | null = null
  #settle: ((error: Error | null) => void) | null = null
  #discardable = 0
  bytes = 0

  constructor(reader: SocketReader, decoder: BodyDecoder, owner: BodyOwner) {
    super()
    this.#reader = reader
    this.#decoder = decoder
    this.#owner = owner
    // A body that fails before anybody reads it must not end the process; the owner has been told.
    this.on('error', () => undefined)
  }

  get isUntouched(): boolean {
    return this.#mode === 'untouched' && !this.destroyed && this.readableFlowing === null
  }

  get isComplete(): boolean {
    return this.#mode === 'complete'
  }

  /** Bytes that have not arrived; null if nobody knows. */
  get remaining(): number | null {
    return this.#decoder.remaining
  }

  get trailers(): HeaderList {
    return this.#decoder.trailers
  }

  /** Gives all bytes to `sink`, and ends it. */
  forward(sink: BodySink, trailers: () => HeaderList): Sending {
    const { promise: finished, resolve, reject } = Promise.withResolvers<void>()
    this.#settle = error => {
      this.#settle = null
      sink.onDrain = null
      if (error !== null) return reject(error)
      try {
        sink.end(trailers())
        resolve()
      } catch (thrown) {
        reject(thrown)
      }
    }
    sink.onDrain = () => this.#reader.resume()
    this.#sink = sink
    this.#begin('forward')
    return { finished, stop: error => this.#abandon(error) }
  }

  /** Reads what is left and drops it. False if there is more than `limit`, or the connection ends. */
  discard(limit: number): Promise<boolean> {
    if (this.#mode === 'complete') return Promise.resolve(true)
    if ((this.#decoder.remaining ?? 0) > limit) return Promise.resolve(false)
    return new Promise(resolve => {
      this.#settle = error => {
        this.#settle = null
        resolve(error === null)
      }
      this.#discardable = limit
      this.#mode = 'discard'
      this.#reader.consume(this)
    })
  }

  onBytes(bytes: Buffer): number {
    try {
      const used = this.#decoder.decode(bytes, this.#emit)
      if (this.#decoder.isComplete && this.#mode !== 'abandoned') this.#complete()
      return used
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)))
      return bytes.length
    }
  }

  onEnd(error: Error | null): void {
    if (error === null && this.#decoder.endsWithConnection) this.#complete()
    else this.#fail(new HttpError('client_gone', 'the connection ended within a body', { cause: error }))
  }

  override _read(): void {
    if (this.#mode === 'untouched') this.#begin('stream')
    else if (this.#mode === 'stream') this.#reader.resume()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (this.#mode === 'untouched' || this.#mode === 'stream')
      this.#abandon(error ?? new Error('the rest of the body is not wanted'))
    done(error)
  }

  #begin(mode: Mode): void {
    this.#mode = mode
    this.#owner.onBodyStarted()
    this.#reader.consume(this)
  }

  #emit = (data: Buffer): void => {
    this.bytes += data.length
    if (this.#mode === 'forward') {
      if (this.#sink?.write(data) === false) this.#reader.pause()
    } else if (this.#mode === 'stream') {
      if (!this.push(data)) this.#reader.pause()
    } else if (this.#mode === 'discard') {
      this.#discardable -= data.length
      if (this.#discardable < 0) throw new Error('more is left of the body than is dropped')
    }
  }

  #complete(): void {
    const wasStream = this.#mode === 'stream'
    this.#mode = 'complete'
    this.#reader.release()
    this.#owner.onBodyComplete()
    if (wasStream) this.push(null)
    this.#settle?.(null)
  }

  #fail(error: Error): void {
    if (this.#mode === 'complete' || this.#mode === 'abandoned') return
    const failure = this.#owner.asFailure(error)
    this.#abandon(failure)
    this.destroy(failure)
  }

  #abandon(error: Error): void {
    if (this.#mode === 'complete' || this.#mode === 'abandoned') return
    this.#mode = 'abandoned'
    this.#reader.release()
    this.#owner.onBodyFailed(error)
    this.#settle?.(error)
  }
}
