// A request that has its connection to itself: process I/O, terminals, file bodies, archives, port forwards.
import type { Duplex } from 'node:stream'
import { SandglassError } from '@sandglass/contract/tables'
import type { Connection } from './connect.ts'
import { errorReply } from './error-reply.ts'
import type { Fields, Message } from './wire.ts'
import { drained, encodeMessage, WireBreach, writeMessage } from './wire.ts'

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

  async send(message: Fields & { type: string }, body?: Uint8Array): Promise<void> {
    const { duplex } = this.#connection
    if (duplex.destroyed) throw this.#lost(duplex.errored)
    writeMessage(duplex, message, body)
    if (duplex.writableLength > AHEAD_BYTES) await this.#drained()
  }

  /** Sends one message whose body of exactly `length` bytes comes from `source`. A source of another length closes the stream. */
  async sendBody(message: Fields & { type: string }, source: AsyncIterable<Uint8Array>, length: number): Promise<void> {
    const { duplex } = this.#connection
    let left = length
    try {
      duplex.write(encodeMessage({ ...message, bytes: length }))
      for await (const chunk of source) {
        left -= chunk.length
        if (left < 0)
          throw new SandglassError('INVALID_REQUEST', {
            issue: `the body is longer than the ${length} bytes it was said to have`,
          })
        if (duplex.destroyed) throw this.#lost(duplex.errored)
        duplex.write(chunk)
        if (duplex.writableLength > AHEAD_BYTES) await this.#drained()
      }
      if (left > 0)
        throw new SandglassError('INVALID_REQUEST', { issue: `the body is shorter than the ${length} bytes it was said to have` })
    } catch (error) {
      this.close()
      throw error
    }
  }

  /**
   * Sends a body as the runner's put requests take it, and resolves with its last message. The runner may refuse half-way:
   * sending stops then, and its error is thrown. Of a source whose length is known nothing but the bytes is sent.
   */
  async upload(source: AsyncIterable<Uint8Array>, length?: number): Promise<Message> {
    let isAnswered = false
    const answer = this.next().finally(() => {
      isAnswered = true
    })
    const sending = this.#sendAll(source, length, () => isAnswered)
    sending.catch(() => undefined) // the first failure is the one to tell; a source that hangs does not hold it back
    await Promise.race([sending, answer.then(() => undefined)]).catch(error => {
      this.close()
      throw error
    })
    const last = await answer
    if (last === null) throw this.#lost(new Error('the runner closed the connection before its last message'))
    return last
  }

  async #sendAll(source: AsyncIterable<Uint8Array>, length: number | undefined, isAnswered: () => boolean): Promise<void> {
    if (length !== undefined) await this.sendBody({ type: 'chunk' }, source, length)
    else
      for await (const chunk of source) {
        if (isAnswered()) return
        if (chunk.length > 0) await this.send({ type: 'chunk' }, chunk)
      }
    await this.send({ type: 'end' })
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
    if (this.#connection.reader.bodyLeft > 0) throw new WireBreach('the reply has a body that was not read')
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
    try {
      await drained(this.#connection.duplex)
    } catch (error) {
      throw this.#lost(error)
    }
  }
}
