// A unix socket with one JSON message per line, as QEMU's monitor and the guest's control port use it.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

type Message = Readonly<Record<string, unknown>>

/** The peer has closed the connection. */
export class ConnectionClosed extends Error {
  override readonly name = 'ConnectionClosed'
}

/** SECURITY: a guest may be hostile. More unread text than this, in one line or many, closes the connection. */
const MAX_BUFFERED = 1024 * 1024

export class LineSocket {
  readonly #socket: Socket
  /** Received text that was not read yet. It is kept unparsed, because parsed messages take many times the memory. */
  #buffer = ''
  #wake = Promise.withResolvers<void>()
  #error: Error | null = null

  constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('utf8')
    socket.on('data', (text: string) => this.#receive(text))
    socket.on('error', error => this.#fail('code' in error ? new ConnectionClosed('connection lost', { cause: error }) : error))
    socket.on('close', () => this.#fail(new ConnectionClosed('connection closed')))
  }

  send(message: Message): void {
    this.#socket.write(`\n${JSON.stringify(message)}\n`)
  }

  /** The next message that `isWanted` accepts; earlier ones are dropped. */
  async next(isWanted: (message: Message) => boolean, signal: AbortSignal): Promise<Message> {
    const abort = () => this.#fail(signal.reason)
    signal.throwIfAborted()
    signal.addEventListener('abort', abort, { once: true })
    try {
      for (;;) {
        for (let line = this.#line(); line !== null; line = this.#line()) {
          const message = parse(line)
          if (message !== null && isWanted(message)) return message
        }
        if (this.#error !== null) throw this.#error
        await this.#wake.promise
      }
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  close(): void {
    this.#socket.destroy()
  }

  /** Sends pending data and closes. Incoming data is discarded. */
  finish(): void {
    this.#socket.removeAllListeners('data').resume()
    this.#socket.end()
    this.#socket.unref()
  }

  #receive(text: string): void {
    this.#buffer += text
    if (this.#buffer.length > MAX_BUFFERED) this.#socket.destroy(new Error('the peer sent too much unread data'))
    this.#notify()
  }

  #line(): string | null {
    const end = this.#buffer.indexOf('\n')
    if (end < 0) return null
    const line = this.#buffer.slice(0, end)
    this.#buffer = this.#buffer.slice(end + 1)
    return line
  }

  #fail(error: unknown): void {
    this.#error ??= error instanceof Error ? error : new Error(String(error))
    this.#notify()
  }

  #notify(): void {
    const { resolve } = this.#wake
    this.#wake = Promise.withResolvers<void>()
    resolve()
  }
}

export async function connectLines(path: string): Promise<LineSocket> {
  const socket = connect({ path })
  await once(socket, 'connect')
  return new LineSocket(socket)
}

function parse(line: string): Message | null {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as Message) : null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
