// The daemon's side of the runner protocol (runner/PROTOCOL.md). Small requests share one connection (control.ts); each stream has its own (stream.ts).
// connect.ts opens connections: one dial each, or streams of a multiplexer (mux.ts). wire.ts reads and writes messages.
import type { Duplex } from 'node:stream'
import { SandglassError } from '@sandglass/contract/tables'
import type { Connection, Ready } from './connect.ts'
import { createConnector } from './connect.ts'
import type { Reply } from './control.ts'
import { ControlConnection } from './control.ts'
import { RunnerStream } from './stream.ts'
import type { Fields, Message } from './wire.ts'
import { encodeMessage, errorReply } from './wire.ts'

const HELLO_TIMEOUT_MS = 10_000

export interface LinkOptions {
  /** The session, for errors. */
  readonly id: string
  /** Opens a byte stream to the runner, before the hello. */
  dial(): Promise<Duplex>
  readonly token: string
  /** All connections share one multiplexed carrier: for backends on which dialling is slow. */
  readonly mux?: boolean
  /** Time for the dial and the answer to the hello. A machine that boots needs longer than one that runs. */
  readonly helloTimeoutMs?: number
}

export interface RunnerLink {
  /** Opens the shared connection unless it is open. */
  connect(): Promise<Ready>
  /** RUNNER_LOST when the connection breaks before the reply; the next request dials again. */
  request(type: string, fields?: Fields, options?: { body?: Uint8Array; signal?: AbortSignal }): Promise<Reply>
  /** Resolves with the first reply. Aborting later closes the stream. */
  stream(type: string, fields?: Fields, options?: { signal?: AbortSignal }): Promise<RunnerStream>
  /** Calls back each time the shared connection breaks without close(). Returns a function that removes the callback. */
  onLost(callback: (error: SandglassError) => void): () => void
  /** Boot id of the runner that answered last; null before the first connection. */
  readonly bootId: string | null
  /** Closes the shared connection, and a carrier with all its streams. Other streams belong to the callers that opened them. */
  close(): void
}

export function openLink(options: LinkOptions): RunnerLink {
  return new Link(options)
}

class Link implements RunnerLink {
  readonly #id: string
  readonly #connector: ReturnType<typeof createConnector>
  readonly #lostCallbacks = new Set<(error: SandglassError) => void>()
  #control: Promise<ControlConnection> | undefined
  #ready: Ready | undefined
  #isClosed = false

  constructor(options: LinkOptions) {
    const { id, token, mux = false, helloTimeoutMs = HELLO_TIMEOUT_MS } = options
    this.#id = id
    this.#connector = createConnector({
      dial: () => options.dial(),
      token,
      mux,
      helloTimeoutMs,
      onReady: ready => {
        this.#ready = ready
      },
    })
  }

  get bootId(): string | null {
    return this.#ready?.bootId ?? null
  }

  async connect(): Promise<Ready> {
    await this.#controlConnection()
    if (this.#ready === undefined) throw this.#lost(undefined)
    return this.#ready
  }

  async request(
    type: string,
    fields: Fields = {},
    { body, signal }: { body?: Uint8Array; signal?: AbortSignal } = {},
  ): Promise<Reply> {
    signal?.throwIfAborted()
    const control = await abortable(this.#controlConnection(), signal)
    let reply: Reply
    try {
      reply = await control.request(type, fields, body, signal)
    } catch (error) {
      throw signal?.aborted ? error : this.#lost(error)
    }
    if (reply.message.type === 'error') throw errorReply(reply.message)
    return reply
  }

  async stream(type: string, fields: Fields = {}, { signal }: { signal?: AbortSignal } = {}): Promise<RunnerStream> {
    signal?.throwIfAborted()
    const opening = this.#open(encodeMessage({ ...fields, id: 's', type }))
    if (signal) opening.then(connection => closeOnAbort(connection, signal)).catch(() => undefined) // thrown below
    const connection = await abortable(opening, signal)
    const reply = await this.#firstReply(connection, signal)
    if (reply.type === 'error') {
      connection.duplex.destroy()
      throw errorReply(reply)
    }
    return new RunnerStream(connection, reply, cause => (signal?.aborted ? signal.reason : this.#lost(cause)))
  }

  onLost(callback: (error: SandglassError) => void): () => void {
    this.#lostCallbacks.add(callback)
    return () => this.#lostCallbacks.delete(callback)
  }

  close(): void {
    this.#isClosed = true
    this.#control?.then(
      control => control.close(),
      () => undefined, // the caller of connect or request gets the error
    )
    this.#connector.close()
  }

  #controlConnection(): Promise<ControlConnection> {
    this.#control ??= this.#openControl()
    return this.#control
  }

  async #openControl(): Promise<ControlConnection> {
    try {
      return new ControlConnection(await this.#open(''), error => {
        this.#control = undefined
        if (this.#isClosed) return
        for (const callback of this.#lostCallbacks) callback(this.#lost(error))
      })
    } catch (error) {
      this.#control = undefined
      throw error
    }
  }

  async #open(first: string): Promise<Connection> {
    if (this.#isClosed) throw this.#lost(new Error('the link is closed'))
    try {
      return await this.#connector.open(first)
    } catch (error) {
      throw this.#lost(error)
    }
  }

  async #firstReply({ duplex, reader }: Connection, signal: AbortSignal | undefined): Promise<Message> {
    try {
      const reply = await reader.next()
      if (reply !== null) return reply
      throw new Error('the runner closed the connection before its reply')
    } catch (error) {
      duplex.destroy()
      throw signal?.aborted ? signal.reason : this.#lost(error)
    }
  }

  #lost(cause: unknown): SandglassError {
    return cause instanceof SandglassError ? cause : new SandglassError('RUNNER_LOST', { id: this.#id }, { cause })
  }
}

/** Rejects when the signal aborts; the promise itself continues. */
async function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await promise
  return await new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort)
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

function closeOnAbort({ duplex }: Connection, signal: AbortSignal): void {
  const abort = () => duplex.destroy()
  signal.addEventListener('abort', abort)
  duplex.once('close', () => signal.removeEventListener('abort', abort))
  if (signal.aborted) abort()
}
