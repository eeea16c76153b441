// A WebSocket as an async iterator of bytes, with backpressure if the socket has `pause`.
import { type RouteName, SandglassError, SOCKET_FAILED, socketProtocols } from '@sandglass/contract/tables'
import { LOST, unreachable } from './errors.ts'
import { routeUrl, type Transport } from './transport.ts'
import { type Resolvers, withResolvers } from './with-resolvers.ts'

/** The part of WebSocket that is used. `pause` and `resume` are not in browsers. */
export type SocketLike = {
  binaryType: string
  readonly bufferedAmount: number
  send(data: Uint8Array<ArrayBuffer>): void
  close(code?: number, reason?: string): void
  addEventListener(type: 'open', listener: () => void): void
  addEventListener(type: 'message', listener: (event: { data: unknown }) => void): void
  addEventListener(type: 'close', listener: (event: { code: number; reason: string }) => void): void
  addEventListener(type: 'error', listener: (event: { error?: unknown; message?: unknown }) => void): void
  pause?(): void
  resume?(): void
}
export type SocketConstructor = new (url: string, protocols: string[]) => SocketLike

const HIGH_WATER = 1024 * 1024
const LOW_WATER = 256 * 1024
/** Unread bytes from which on a socket without `pause` is closed. */
const MAX_UNREAD = 64 * 1024 * 1024

type SocketOptions = { params: Record<string, string | number>; query?: object; signal?: AbortSignal }

/** Opens the WebSocket of a route. Aborting the signal closes it, also after it is open. */
export async function openSocket(transport: Transport, name: RouteName, options: SocketOptions): Promise<ByteSocket> {
  const { signal, params, query } = options
  signal?.throwIfAborted()
  const { baseUrl, address, WebSocket: Given } = transport.options
  const url = baseUrl.replace(/^http/, 'ws') + routeUrl(name, params, query)
  // A browser does not show the reply to a refused upgrade. A plain request gets the error of the key or the session.
  const explain = async (error: unknown): Promise<never> => {
    signal?.throwIfAborted()
    if (error instanceof SandglassError && !error.is('DAEMON_UNREACHABLE')) throw error
    await transport.json('getSession', { params: { id: String(params.id) }, signal })
    throw error
  }
  const Socket: SocketConstructor | undefined = Given ?? globalThis.WebSocket
  if (Socket === undefined)
    throw new Error("there is no WebSocket here: in Node, import SandboxClient from '@sandglass/sdk/node'")
  const protocols = socketProtocols(await transport.key(signal))
  signal?.throwIfAborted()
  const socket = new ByteSocket(new Socket(url, protocols), address, signal)
  await socket.opened.catch(explain)
  return socket
}

/** Iterates over the messages in order and ends when the other side closes. */
export class ByteSocket implements AsyncIterable<Uint8Array<ArrayBuffer>> {
  readonly opened: Promise<void>
  #socket: SocketLike
  #queue: Uint8Array<ArrayBuffer>[] = []
  #unread = 0
  #isPaused = false
  #ended: { error: unknown } | undefined
  #wake: Resolvers<void> = withResolvers()

  constructor(socket: SocketLike, address: string, signal: AbortSignal | undefined) {
    const opened = withResolvers<void>()
    this.opened = opened.promise
    this.opened.catch(() => undefined)
    this.#socket = socket
    socket.binaryType = 'arraybuffer'
    let failure: Error | undefined
    const abort = () => this.#end(signal?.reason)
    const settle = (error: unknown) => {
      signal?.removeEventListener('abort', abort)
      opened.reject(error ?? unreachable(address, new Error('the connection closed')))
      this.#end(error)
    }
    socket.addEventListener('open', () => opened.resolve())
    socket.addEventListener('message', event => this.#receive(event.data))
    socket.addEventListener('error', event => {
      failure ??= failureIn(event)
    })
    socket.addEventListener('close', ({ code, reason }) => {
      if (signal?.aborted) settle(signal.reason)
      else if (failure instanceof SandglassError) settle(failure)
      else if (code === SOCKET_FAILED && reason)
        settle(SandglassError.fromWire({ code: reason, message: `the stream failed: ${reason}` }))
      else if (code === 1000) settle(undefined)
      else settle(unreachable(address, failure ?? new Error(`${LOST} (${code})`)))
    })
    signal?.addEventListener('abort', abort, { once: true })
  }

  /** Waits while much is unsent, so that a fast writer does not fill the memory. */
  async write(data: Uint8Array<ArrayBuffer>): Promise<void> {
    // WebSockets have no drain event, so the amount is polled.
    while (this.#socket.bufferedAmount > HIGH_WATER && !this.#ended) await new Promise(resolve => setTimeout(resolve, 2))
    if (!this.#ended) this.#socket.send(data)
  }

  close(): void {
    this.#end(undefined)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> {
    try {
      for (;;) {
        const message = this.#queue.shift()
        if (message) {
          this.#consumed(message.length)
          yield message
        } else if (this.#ended) {
          if (this.#ended.error !== undefined) throw this.#ended.error
          return
        } else {
          await this.#wake.promise
          this.#wake = withResolvers()
        }
      }
    } finally {
      this.close()
    }
  }

  #receive(data: unknown): void {
    if (this.#ended) return
    const message = bytesOf(data)
    this.#queue.push(message)
    this.#unread += message.length
    this.#wake.resolve()
    if (this.#unread > HIGH_WATER && !this.#isPaused && this.#socket.pause) {
      this.#isPaused = true
      this.#socket.pause()
    }
    if (this.#unread > MAX_UNREAD) this.#end(new SandglassError('SLOW_READER', {}))
  }

  #consumed(bytes: number): void {
    this.#unread -= bytes
    if (this.#isPaused && this.#unread < LOW_WATER) {
      this.#isPaused = false
      this.#socket.resume?.()
    }
  }

  #end(error: unknown): void {
    if (this.#ended) return
    this.#ended = { error }
    this.#wake.resolve()
    if (this.#isPaused) this.#socket.resume?.() // a paused socket would not get its close event
    this.#socket.close(1000)
  }
}

/** The WebSocket in node/ delivers views, others ArrayBuffers. */
function bytesOf(data: unknown): Uint8Array<ArrayBuffer> {
  if (data instanceof ArrayBuffer) return new Uint8Array(data)
  if (ArrayBuffer.isView(data) && data.buffer instanceof ArrayBuffer)
    return new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  return new TextEncoder().encode(String(data))
}

/** Browsers give no reason. The WebSocket in node/ puts the refusal into `error`. */
function failureIn(event: { error?: unknown; message?: unknown }): Error {
  if (event.error instanceof SandglassError) return event.error
  return new Error(typeof event.message === 'string' && event.message ? event.message : 'the connection failed')
}
