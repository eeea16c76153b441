// A request with a connection of its own: process I/O, terminals, file bodies, archives, port forwards.
import type { Duplex, Readable } from 'node:stream'
import { SandglassError } from '@sandglass/contract/tables'
import { drained } from './backpressure.ts'
import type { Connection } from './connect.ts'
import { RunnerSocket } from './runner-socket.ts'
import type { Fields, Message } from './wire.ts'
import { encodeMessage, errorReply, ProtocolError, writeMessage } from './wire.ts'

/** Unsent bytes from which on a sender waits: enough to keep the runner busy while the next piece is read. */
const AHEAD_BYTES = 512 * 1024

export interface StreamMessage {
  readonly message: Message
  /** The raw bytes after the message; unread bytes are skipped. */
  readonly body: AsyncIterable<Buffer>
}

/**
 * Backpressure works in both directions: `send` resolves when the runner takes more, and messages that are not read stay in the runner.
 * The iterator ends when the runner closes the connection between two messages, and throws at an error message.
 */
export class RunnerStream implements AsyncIterable<StreamMessage> {
  /** The first message of the runner. */
  readonly reply: Message
  readonly #connection: Connection
  readonly #lost: (cause: unknown) => unknown
  #isClosed = false

  constructor(connection: Connection, reply: Message, lost: (cause: unknown) => unknown) {
    this.#connection = connection
    this.reply = reply
    this.#lost = lost
  }

  /** The raw bytes after the last message. Read them before the next message. */
  async *replyBody(): AsyncGenerator<Buffer, void, undefined> {
    try {
      yield* this.#connection.reader.body()
    } catch (error) {
      throw this.#lost(error)
    }
  }

  /** The whole body after the last message; RUNNER_LOST when it is larger than `maxBytes`. */
  async collect(maxBytes: number): Promise<Buffer> {
    try {
      return await this.#connection.reader.collect(maxBytes)
    } catch (error) {
      throw this.#lost(error)
    }
  }

  /** Returns the buffer of a body piece for reuse. Pieces are returned in their order. */
  recycle(chunk: Uint8Array): void {
    const { duplex } = this.#connection
    if (duplex instanceof RunnerSocket) duplex.recycle(chunk)
  }

  async send(message: Fields & { type: string }, body?: Uint8Array): Promise<void> {
    const { duplex } = this.#connection
    if (duplex.destroyed) throw this.#lost(duplex.errored)
    writeMessage(duplex, message, body)
    if (duplex.writableLength > AHEAD_BYTES) await this.#drained()
  }

  /**
   * Sends a body in the form of the runner's put requests and resolves with the last message of the runner. When the runner refuses during
   * the upload, sending stops and its error is thrown. A body of known length is sent as one chunk. Takes ownership of the chunks: their
   * memory is freed once it is sent.
   */
  async upload(source: Readable, length?: number): Promise<Message> {
    const answer = this.next()
    const sending = length === undefined ? this.#sendChunks(source) : this.#sendBody(source, length)
    sending.catch(() => undefined) // the race reports the first failure, also while the source hangs
    await Promise.race([sending, answer.then(() => undefined)]).catch(error => {
      this.close()
      throw error
    })
    const last = await answer
    if (last === null) throw this.#lost(new Error('the runner closed the connection before its last message'))
    return last
  }

  async #sendChunks(source: Readable): Promise<void> {
    await this.#pass(source, chunk => {
      if (chunk.length > 0) writeMessage(this.#connection.duplex, { type: 'chunk' }, chunk, this.#freed(chunk))
    })
    await this.send({ type: 'end' })
  }

  async #sendBody(source: Readable, length: number): Promise<void> {
    const { duplex } = this.#connection
    const wrong = (how: string) =>
      new SandglassError('INVALID_REQUEST', { issue: `the body is ${how} than the declared ${length} bytes` })
    let left = length
    duplex.write(encodeMessage({ type: 'chunk', bytes: length }))
    await this.#pass(source, chunk => {
      left -= chunk.length
      if (left < 0) throw wrong('longer')
      duplex.write(chunk, this.#freed(chunk))
    })
    if (left > 0) throw wrong('shorter')
    await this.send({ type: 'end' })
  }

  /**
   * Calls `write` with each chunk and pauses the source while too much is unsent. After a failure the source is not destroyed: it may be a
   * request whose connection still has to carry the reply.
   */
  async #pass(source: Readable, write: (chunk: Buffer) => void): Promise<void> {
    const { duplex } = this.#connection
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const take = (chunk: Buffer) => {
      if (duplex.destroyed) return reject(this.#lost(duplex.errored))
      try {
        write(chunk)
      } catch (error) {
        return reject(error)
      }
      if (duplex.writableLength <= AHEAD_BYTES) return
      source.pause()
      this.#drained().then(() => source.resume(), reject)
    }
    source.on('data', take)
    source.once('end', resolve)
    source.on('error', reject)
    source.once('close', () => reject(new Error('the source closed before its end')))
    try {
      await promise
    } finally {
      source.off('data', take)
    }
  }

  /**
   * A write callback that frees the memory of the chunk at once: for a large file, garbage collection would take longer than the transfer.
   * Not for the multiplexer, which may use a chunk after its write, and not after an error.
   */
  #freed({ buffer, length }: Buffer): ((error: unknown) => void) | undefined {
    const ownsBuffer = buffer instanceof ArrayBuffer && length === buffer.byteLength
    if (!ownsBuffer || !(this.#connection.duplex instanceof RunnerSocket)) return undefined
    return error => {
      if (!error) buffer.transfer(0)
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<StreamMessage, void, undefined> {
    for (let message = await this.next(); message !== null; message = await this.next()) {
      yield { message, body: this.replyBody() }
    }
  }

  /** The next message, null at the end; `replyBody` reads its body. */
  async next(): Promise<Message | null> {
    const message = await this.#read()
    if (message?.type === 'error') {
      this.close()
      throw errorReply(message)
    }
    return message
  }

  /** The connection itself, for raw bytes after the reply. No other method may be used afterwards. */
  raw(): Duplex {
    if (this.#connection.reader.bodyLeft > 0) throw new ProtocolError('the body of the reply was not read')
    this.#connection.reader.release()
    return this.#connection.duplex
  }

  /** Closes the connection; programs in the sandbox keep running. Idempotent. */
  close(): void {
    this.#isClosed = true
    this.#connection.duplex.destroy()
  }

  async #read(): Promise<Message | null> {
    try {
      return await this.#connection.reader.next()
    } catch (error) {
      if (this.#isClosed) return null
      throw this.#lost(error)
    }
  }

  async #drained(): Promise<void> {
    const { duplex } = this.#connection
    await drained(duplex)
    if (duplex.destroyed) throw this.#lost(duplex.errored)
  }
}
