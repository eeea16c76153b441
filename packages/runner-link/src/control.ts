// The shared connection of small requests. The runner handles them concurrently; an id assigns each reply to its request.
import type { Connection } from './connect.ts'
import type { Fields, Message } from './wire.ts'
import { ProtocolError, writeMessage } from './wire.ts'

export interface Reply {
  readonly message: Message
  readonly body: Buffer
}

interface Pending {
  readonly type: string
  resolve(reply: Reply): void
  reject(error: unknown): void
}

/** `onEnd` is called once, when the connection has ended and all pending requests are rejected. */
export class ControlConnection {
  readonly #connection: Connection
  readonly #pending = new Map<string, Pending>()
  #nextId = 0
  #end: Error | undefined

  constructor(connection: Connection, onEnd: (error: Error) => void) {
    this.#connection = connection
    this.#readReplies().then(
      () => this.#finish(new Error('the runner closed the connection'), onEnd),
      error => this.#finish(error, onEnd),
    )
  }

  request(type: string, fields: Fields, body: Uint8Array | undefined, signal: AbortSignal | undefined): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (this.#end) throw this.#end
      const id = (this.#nextId++).toString(36)
      const abort = () => settle(() => reject(signal?.reason))
      const settle = (outcome: () => void) => {
        this.#pending.delete(id)
        signal?.removeEventListener('abort', abort)
        outcome()
      }
      writeMessage(this.#connection.duplex, { ...fields, id, type }, body)
      this.#pending.set(id, {
        type,
        resolve: reply => settle(() => resolve(reply)),
        reject: error => settle(() => reject(error)),
      })
      signal?.addEventListener('abort', abort)
    })
  }

  close(): void {
    this.#connection.duplex.destroy()
  }

  async #readReplies(): Promise<void> {
    const { reader } = this.#connection
    for (let message = await reader.next(); message !== null; message = await reader.next()) {
      const pending = typeof message.id === 'string' ? this.#pending.get(message.id) : undefined
      const body = await reader.collect()
      // The reply to an aborted request is dropped.
      if (pending === undefined) continue
      if (message.type !== pending.type && message.type !== 'error')
        throw new ProtocolError('a reply of another type than its request')
      pending.resolve({ message, body })
    }
  }

  #finish(error: Error, onEnd: (error: Error) => void): void {
    this.#end = error
    this.#connection.duplex.destroy()
    for (const pending of [...this.#pending.values()]) pending.reject(error)
    onEnd(error)
  }
}
