// The writing side of a connection. What is written within one turn of the event loop leaves in one system call and one TLS record.
import type { Duplex } from 'node:stream'
import type { HeaderList } from '../message.ts'
import type { BodySink } from '../send-body.ts'
import type { Framing } from './head.ts'
import { writeTrailers } from './write-head.ts'

export class SocketWriter {
  readonly socket: Duplex
  onDrain: (() => void) | null = null
  #isCorked = false

  constructor(socket: Duplex) {
    this.socket = socket
    socket.on('drain', () => this.onDrain?.())
  }

  get needsDrain(): boolean {
    return this.socket.writableNeedDrain
  }

  /** Text is latin1. False if the caller should wait for `onDrain`. */
  write(data: string | Uint8Array): boolean {
    const { socket } = this
    if (!this.#isCorked) {
      this.#isCorked = true
      socket.cork()
      setImmediate(this.flush)
    }
    return typeof data === 'string' ? socket.write(data, 'latin1') : socket.write(data)
  }

  /** Lets everything written so far leave at once. */
  flush = (): void => {
    if (!this.#isCorked) return
    this.#isCorked = false
    this.socket.uncork()
  }

  /** Resolves when the connection has taken most of what was written, or is closed. */
  drained(): Promise<void> {
    const { socket } = this
    if (!socket.writableNeedDrain || socket.destroyed) return Promise.resolve()
    return new Promise(resolve => {
      const settle = () => {
        socket.off('drain', settle).off('close', settle)
        resolve()
      }
      socket.on('drain', settle).on('close', settle)
    })
  }
}

/** A body in an HTTP/1 connection. */
export class H1Sink implements BodySink {
  readonly #writer: SocketWriter
  readonly #framing: Framing
  bytes = 0

  constructor(writer: SocketWriter, framing: Framing) {
    this.#writer = writer
    this.#framing = framing
  }

  get onDrain(): (() => void) | null {
    return this.#writer.onDrain
  }

  set onDrain(callback: (() => void) | null) {
    this.#writer.onDrain = callback
  }

  write(data: Uint8Array): boolean {
    const framing = this.#framing
    if (framing.kind === 'none' || data.length === 0) return true
    this.bytes += data.length
    if (framing.kind === 'length' && this.bytes > framing.length) throw new Error('the body is longer than its Content-Length')
    if (framing.kind !== 'chunked') return this.#writer.write(data)
    this.#writer.write(`${data.length.toString(16)}\r\n`)
    this.#writer.write(data)
    return this.#writer.write('\r\n')
  }

  end(trailers: HeaderList): void {
    const framing = this.#framing
    if (framing.kind === 'length' && this.bytes < framing.length) throw new Error('the body is shorter than its Content-Length')
    if (framing.kind === 'chunked') this.#writer.write(`0\r\n${writeTrailers(trailers)}`)
    this.#writer.flush()
  }
}
