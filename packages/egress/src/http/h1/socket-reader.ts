// The reading side of a connection. One consumer at a time gets the bytes: the reader of a head, then a body, then the next head.
import type { Duplex } from 'node:stream'

export interface Consumer {
  /** Returns how many of the bytes it took. It takes all of them unless it has called `release`. */
  onBytes(bytes: Buffer): number
  /** No more bytes come. The error is null if the peer has ended the connection in order. */
  onEnd(error: Error | null): void
}

/** What the owner of a connection wants to know while there is no consumer. */
export interface IdleListener {
  /** Bytes have arrived and are held. */
  onHeld(): void
  onEnd(error: Error | null): void
}

/** Bytes that are kept while nobody consumes; then the peer has to wait. */
const MAX_HELD_BYTES = 64 * 1024

export class SocketReader {
  readonly socket: Duplex
  readonly #idle: IdleListener
  #consumer: Consumer | null = null
  #isFull = false
  #held: Buffer | null = null
  #end: { readonly error: Error | null } | null = null

  constructor(socket: Duplex, idle: IdleListener) {
    this.socket = socket
    this.#idle = idle
    socket.on('data', this.#onData).on('end', this.#onEnd).on('error', this.#onError).on('close', this.#onClose)
    socket.resume()
  }

  get hasEnded(): boolean {
    return this.#end !== null
  }

  /** True if bytes have arrived that nobody has taken. */
  get hasBytes(): boolean {
    return this.#held !== null
  }

  /** Bytes that have arrived already are delivered before this returns. */
  consume(consumer: Consumer): void {
    this.#consumer = consumer
    this.#isFull = false
    const held = this.#held
    this.#held = null
    if (held !== null) this.#deliver(held)
    if (this.#consumer !== consumer) return
    if (this.#end !== null) this.#finish(this.#end.error)
    else if (!this.#isFull) this.resume()
  }

  /** The consumer wants no more. */
  release(): void {
    this.#consumer = null
  }

  /** Ends the consumer as a failed connection would. */
  interrupt(error: Error): void {
    this.#finish(error)
  }

  /** The consumer can take no more for the moment. */
  pause(): void {
    this.#isFull = true
    this.socket.pause()
  }

  resume(): void {
    this.#isFull = false
    if (this.socket.isPaused()) this.socket.resume()
  }

  /** Gives the connection away, paused, with the bytes that nobody has taken. A failure of it shows as its close. */
  detach(): Duplex {
    const { socket } = this
    socket.pause()
    socket.off('data', this.#onData).off('end', this.#onEnd)
    this.#end = { error: null }
    if (this.#held !== null) socket.unshift(this.#held)
    this.#held = null
    this.#consumer = null
    return socket
  }

  #onData = (bytes: Buffer): void => {
    if (this.#consumer !== null && this.#held === null) this.#deliver(bytes)
    else this.#hold(this.#held === null ? bytes : Buffer.concat([this.#held, bytes]))
  }

  #deliver(bytes: Buffer): void {
    let rest = bytes
    while (this.#consumer !== null && rest.length > 0) {
      const taken = this.#consumer.onBytes(rest)
      rest = taken === 0 ? rest : rest.subarray(taken)
    }
    if (rest.length > 0) this.#hold(rest)
  }

  #hold(bytes: Buffer): void {
    this.#held = bytes
    if (bytes.length > MAX_HELD_BYTES) this.socket.pause()
    if (this.#consumer === null) this.#idle.onHeld()
  }

  #onEnd = (): void => this.#ended(null)
  #onError = (error: Error): void => this.#ended(error)
  #onClose = (): void => this.#ended(new Error('the connection was closed'))

  #ended(error: Error | null): void {
    if (this.#end !== null) return
    this.#end = { error }
    if (this.#consumer !== null) this.#finish(error)
    else this.#idle.onEnd(error)
  }

  #finish(error: Error | null): void {
    const consumer = this.#consumer
    this.#consumer = null
    consumer?.onEnd(error)
  }
}
