// An HTTP/1 connection of a client, between its exchanges: the next head, timeouts, and the end.
import type { Duplex } from 'node:stream'
import { HttpError } from '../errors.ts'
import { readHead } from './read-head.ts'
import { type IdleListener, SocketReader } from './socket-reader.ts'
import { SocketWriter } from './socket-writer.ts'

export interface ServerTimeouts {
  /** From the first byte of a head to its end. */
  readonly headMs: number
  /** Between two requests. */
  readonly idleMs: number
  /** For the rest of a body that nobody wants, and for a client that does not close its side. */
  readonly lingerMs: number
}

export const DEFAULT_TIMEOUTS: ServerTimeouts = { headMs: 30_000, idleMs: 300_000, lingerMs: 5_000 }

/** What arrives after the last reply and is dropped, so that the client gets that reply: a reset would overtake it. */
const MAX_LINGER_BYTES = 1024 * 1024

export class ServerConnection {
  readonly reader: SocketReader
  readonly writer: SocketWriter
  readonly timeouts: ServerTimeouts
  /** Gets to know what happens while an exchange is under way. */
  current: (IdleListener & { onClosed(): void }) | null = null
  readonly #idleTimer: NodeJS.Timeout
  #isWaiting = false

  constructor(socket: Duplex, timeouts: ServerTimeouts) {
    this.timeouts = timeouts
    this.reader = new SocketReader(socket, {
      onHeld: () => this.current?.onHeld(),
      onEnd: error => this.current?.onEnd(error),
    })
    this.writer = new SocketWriter(socket)
    this.#idleTimer = setTimeout(() => this.#isWaiting && socket.destroy(), timeouts.idleMs)
    socket.once('close', () => {
      clearTimeout(this.#idleTimer)
      this.current?.onClosed()
    })
  }

  get socket(): Duplex {
    return this.reader.socket
  }

  /** The next head; null if the client has ended the connection. */
  async nextHead(): Promise<string | null> {
    let timer: NodeJS.Timeout | undefined
    const onPart = () => {
      this.#isWaiting = false
      const late = () => this.reader.interrupt(new HttpError('head_timeout', 'the headers did not arrive in time'))
      timer = setTimeout(late, this.timeouts.headMs)
    }
    this.#isWaiting = true
    this.#idleTimer.refresh()
    try {
      return await readHead(this.reader, onPart)
    } finally {
      this.#isWaiting = false
      clearTimeout(timer)
    }
  }

  /** The connection is no longer HTTP: the caller owns the bytes. */
  detach(): Duplex {
    this.writer.flush()
    clearTimeout(this.#idleTimer)
    this.current = null
    return this.reader.detach()
  }

  /** Ends the connection after what has been written; a client that goes on sending is cut off. */
  close(): void {
    const { socket } = this
    this.current = null
    this.writer.flush()
    if (socket.destroyed) return
    socket.end()
    const timer = setTimeout(() => socket.destroy(), this.timeouts.lingerMs)
    socket.once('close', () => clearTimeout(timer))
    let dropped = 0
    this.reader.consume({
      onBytes(bytes) {
        dropped += bytes.length
        if (dropped > MAX_LINGER_BYTES) socket.destroy()
        return bytes.length
      },
      onEnd: () => destroyFinished(socket),
    })
  }
}

/** Both sides have ended: nothing is left but to free the connection, once everything has been written. */
function destroyFinished(socket: Duplex): void {
  if (socket.writableFinished) socket.destroy()
  else socket.once('finish', () => socket.destroy())
}
