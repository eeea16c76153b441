// A request that has its connection to itself: process I/O, terminals, file bodies, archives, port forwards.
import type { Duplex, Readable } from 'node:stream'
import { SandglassError } from '@sandglass/contract/tables'
import { drained } from '../lib/backpressure.ts'
import type { Connection } from './connect.ts'
import { RunnerSocket } from './runner-socket.ts'
import type { Fields, Message } from './wire.ts'
import { encodeMessage, errorReply, ProtocolError, writeMessage } from './wire.ts'

/** What may wait to be sent: enough to keep the runner busy while the next piece is fetched. */
const AHEAD_BYTES = 512 * 1024

export interface StreamMessage {
  readonly message: Message
  /** The raw bytes that follow, as they arrive; what is left unread is skipped. */
  readonly body: AsyncIterable<Buffer>
}

/**
 * Backpressure holds both ways: `send` resolves when the runner takes more, and what is not iterated stays in the runner.
 * The iterator ends when the runner closed the connection between two messages, and throws at an error message.
 */
export class RunnerStream implements AsyncIterable<StreamMessage> {
  /** The first message back. */
  readonly reply: Message
  readonly #connection: Connection
  readonly #lost: (cause: unknown) => unknown
  #isClosed = false

  constructor(connection: Connection, reply: Message, lost: (cause: unknown) => unknown) {
    this.#connection = connection
    this.reply = reply
    this.#lost = lost
  }

  /** The raw bytes that follow the reply, `reply.bytes` of them. To be read before anything else. */
  async *replyBody(): AsyncGenerator<Buffer, void, undefined> {
    try {
      yield* this.#connection.reader.body()
    } catch (error) {
      throw this.#lost(error)
    }
  }

  /** The whole body that follows the last message; RUNNER_LOST when it is larger than the caller can take. */
  async collect(maxBytes: number): Promise<Buffer> {
    try {
      return await this.#connection.reader.collect(maxBytes)
    } catch (error) {
      throw this.#lost(error)
    }
  }

  /** Takes back a piece of a body that is needed no more, in the order they came. */
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
   * Sends a body as the runner's put requests take it, and resolves with its last message. The runner may refuse half-way:
   * sending stops then, and its error is thrown. Of a source whose length is known nothing but the bytes is sent. Its chunks are
   * used up: one that has its memory to itself is empty afterwards.
   */
  async upload(source: Readable, length?: number): Promise<Message> {
    const answer = this.next()
    const sending = length === undefined ? this.#sendChunks(source) : this.#sendBody(source, length)
    sending.catch(() => undefined) // the first failure is the one to tell; a source that hangs does not hold it back
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
      new SandglassError('INVALID_REQUEST', { issue: `the body is ${how} than the ${length} bytes it was said to have` })
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
   * Gives each chunk to `write` as it comes. The source rests while too much waits to be sent. When it is not wanted any more it is left as
   * it is: destroying a request would close its connection, and with it the way of the reply that says why.
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
   * For the end of a write: gives the memory back at once, because for a large file the garbage collector would work longer than
   * the transfer takes. The multiplexer may hold a chunk for longer than its write, and a broken connection does not say.
   */
  #freed({ buffer, length }: Buffer): ((error: unknown) => void) | undefined {
    const isAlone = buffer instanceof ArrayBuffer && length === buffer.byteLength
    if (!isAlone || !(this.#connection.duplex instanceof RunnerSocket)) return undefined
    return error => {
      if (!error) buffer.transfer(0)
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<StreamMessage, void, undefined> {
    for (let message = await this.next(); message !== null; message = await this.next()) {
      yield { message, body: this.replyBody() }
    }
  }

  /** The next message alone, null at the end; its body is read with `replyBody`. */
  async next(): Promise<Message | null> {
    const message = await this.#read()
    if (message?.type === 'error') {
      this.close()
      throw errorReply(message)
    }
    return message
  }

  /** The connection itself, for what is raw bytes after the reply. Nothing else of this object may be used afterwards. */
  raw(): Duplex {
    if (this.#connection.reader.bodyLeft > 0) throw new ProtocolError('the reply has a body that was not read')
    this.#connection.reader.release()
    return this.#connection.duplex
  }

  /** Detaches: what runs in the sandbox runs on. Idempotent. */
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
