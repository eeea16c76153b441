// One line of JSON per message over a unix socket: QEMU's monitor and the control port of a machine both speak like this.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

type Message = Readonly<Record<string, unknown>>

/** The other side is gone. */
export class ConnectionClosed extends Error {
  override readonly name = 'ConnectionClosed'
}

/** What comes from a machine may be hostile: a longer line ends the conversation. */
const MAX_LINE = 1024 * 1024

export class LineSocket {
  readonly #socket: Socket
  readonly #messages: Message[] = []
  #rest = ''
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
        for (let message = this.#messages.shift(); message !== undefined; message = this.#messages.shift())
          if (isWanted(message)) return message
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

  /** Sends what is under way and closes. */
  finish(): void {
    this.#socket.end()
    this.#socket.unref()
  }

  #take(text: string): void {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) {
      const message = parse(line)
      if (message !== null) this.#messages.push(message)
    }
    if (this.#rest.length > MAX_LINE) this.#socket.destroy(new Error('a line that is too long'))
    this.#stir()
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
