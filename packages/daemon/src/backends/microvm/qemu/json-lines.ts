// One line of JSON per message over a unix socket: QEMU's monitor and the control port of a machine both speak like this.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

type Message = Readonly<Record<string, unknown>>

/** The other side is gone. */
export class ConnectionClosed extends Error {
  override readonly name = 'ConnectionClosed'
}

/** SECURITY: what comes from a machine may be hostile. More than this that nobody has taken yet, in one line or in many, ends the conversation. */
const MAX_WAITING = 1024 * 1024

export class LineSocket {
  readonly #socket: Socket
  /** What has come and was not taken yet. Parsed it would be many times as large. */
  #waiting = ''
  #wake = Promise.withResolvers<void>()
  #error: Error | null = null

  constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('utf8')
    socket.on('data', (text: string) => this.#take(text))
    socket.on('error', error =>
      this.#fail('code' in error ? new ConnectionClosed('the connection broke', { cause: error }) : error),
    )
    socket.on('close', () => this.#fail(new ConnectionClosed('the connection was closed')))
  }

  send(message: Message): void {
    this.#socket.write(`\n${JSON.stringify(message)}\n`)
  }

  /** The next message that the test accepts; others are dropped. */
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

  /** Sends what is under way and closes. What still comes is thrown away. */
  finish(): void {
    this.#socket.removeAllListeners('data').resume()
    this.#socket.end()
    this.#socket.unref()
  }

  #take(text: string): void {
    this.#waiting += text
    if (this.#waiting.length > MAX_WAITING) this.#socket.destroy(new Error('the other side says too much'))
    this.#stir()
  }

  #line(): string | null {
    const end = this.#waiting.indexOf('\n')
    if (end < 0) return null
    const line = this.#waiting.slice(0, end)
    this.#waiting = this.#waiting.slice(end + 1)
    return line
  }

  #fail(error: unknown): void {
    this.#error ??= error instanceof Error ? error : new Error(String(error))
    this.#stir()
  }

  #stir(): void {
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
