// An attached shell or process.
import { CHANNELS, type LimitHit, type RouteName, SandglassError, type SignalInput } from '@sandglass/contract/tables'
import { toCamel } from '../transport/case.ts'
import { wireError, withSession } from '../transport/errors.ts'
import { ResultStream } from '../transport/result-stream.ts'
import { type ByteSocket, openSocket } from '../transport/socket.ts'
import type { Transport } from '../transport/transport.ts'
import type { Cancel, TerminalSize } from '../wire-types.ts'

export type Output = { stream: 'stdout' | 'stderr'; data: Uint8Array<ArrayBuffer> }
/** `limitHit` is a limit that the session reached before the program failed; null if none is known. */
export type Exit = { exitCode: number; timedOut: boolean; limitHit: LimitHit | null }

/**
 * The terminal of a shell, or the standard streams of a process. Iterate over it to get the output; `exit` resolves at the end. `close`, or
 * leaving the loop, detaches; the program keeps running. `exit` and `wait` work without a loop: the output is then read and dropped.
 */
export class Attachment implements AsyncIterable<Output, Exit | undefined> {
  #socket: ByteSocket
  #output: ResultStream<Output, Exit | undefined>

  constructor(socket: ByteSocket, of: { session: string; pid?: number }) {
    this.#socket = socket
    this.#output = new ResultStream(output(socket, of), closedFirst)
  }

  /**
   * How the program ended. If no loop over the output begins in the same turn of the event loop, the output is dropped until one begins.
   * Rejects when the connection ends before the process does.
   */
  get exit(): Promise<Exit> {
    return this.#output.result
  }

  /** Drops the rest of the output and resolves with the exit. */
  wait(): Promise<Exit> {
    return this.#output.drain()
  }

  /** Writes to stdin. Waits while much data is unsent. */
  write(data: string | Uint8Array): Promise<void> {
    return this.#send(CHANNELS.stdin, typeof data === 'string' ? new TextEncoder().encode(data) : data)
  }

  /** Closes stdin. */
  end(): Promise<void> {
    return this.#send(CHANNELS.stdin_eof, new Uint8Array())
  }

  resize(size: TerminalSize): Promise<void> {
    return this.#send(CHANNELS.resize, json(size))
  }

  signal(signal: SignalInput): Promise<void> {
    return this.#send(CHANNELS.signal, json({ signal }))
  }

  close(): void {
    this.#socket.close()
  }

  [Symbol.asyncIterator](): AsyncGenerator<Output, Exit | undefined, undefined> {
    return this.#output.iterator()
  }

  #send(channel: number, payload: Uint8Array): Promise<void> {
    const message = new Uint8Array(payload.length + 1)
    message[0] = channel
    message.set(payload, 1)
    return this.#socket.write(message)
  }
}

type AttachOptions = { params: Record<string, string | number>; query?: object } & Cancel

export async function attach(transport: Transport, name: RouteName, options: AttachOptions): Promise<Attachment> {
  const { id, pid } = options.params
  const of = { session: String(id), ...(pid === undefined ? {} : { pid: Number(pid) }) }
  return new Attachment(await openSocket(transport, name, options), of)
}

async function* output(
  socket: ByteSocket,
  of: { session: string; pid?: number },
): AsyncGenerator<Output, Exit | undefined, undefined> {
  try {
    for await (const message of socket) {
      const payload = message.subarray(1)
      if (message[0] === CHANNELS.stdout) yield { stream: 'stdout', data: payload }
      else if (message[0] === CHANNELS.stderr) yield { stream: 'stderr', data: payload }
      else if (message[0] === CHANNELS.error) throw failure(payload)
      else if (message[0] === CHANNELS.exit) return toCamel(JSON.parse(new TextDecoder().decode(payload))) as Exit
    }
    return undefined
  } catch (error) {
    throw withSession(error, of)
  }
}

const closedFirst = () => new SandglassError('DAEMON_UNREACHABLE', { address: 'the attached stream', why: 'it closed first' })

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value))

function failure(payload: Uint8Array): SandglassError {
  const text = new TextDecoder().decode(payload)
  return SandglassError.fromWire(wireError(text) ?? { code: 'INTERNAL', message: text })
}
