// The daemon's end of the control socket of the egress process. Requests and their replies share one connection, in any order.
//
// SECURITY: the egress process handles hostile bytes, so its replies and events are checked like those of a runner.
import { connect, type Socket } from 'node:net'
import {
  CONTROL_REPLIES,
  CONTROL_VERSION,
  ControlEvent,
  ControlFailure,
  type ControlReplies,
  type ControlRequest,
} from '@sandglass/egress/control'
import { readLines, writeLine } from '@sandglass/egress/lines'
import { withDeadline } from '../lib/with-deadline.ts'

type RequestType = ControlRequest['type']
type Fields<T extends RequestType> = Omit<Extract<ControlRequest, { type: T }>, 'id' | 'type'>

export interface Control {
  readonly hello: ControlReplies['hello']
  /** Rejects with the message of the egress process, after `ms` without a reply, or when the connection breaks. */
  request<T extends RequestType>(type: T, fields: Fields<T>, ms?: number): Promise<ControlReplies[T]>
  close(): void
}

export interface ControlOptions {
  onEvent(event: ControlEvent): void
  /** Called once when the connection breaks without close(). */
  onLost(): void
}

/** Longer than the egress process waits for a runner, so that its own reason arrives. */
const REPLY_MS = 6000
const HELLO_MS = 5000

/** Connects and exchanges the hello. The version is the caller's to check: `isSameVersion`. */
export async function connectControl(path: string, options: ControlOptions): Promise<Control> {
  const socket = await dial(path)
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>()
  let lastId = 0
  let isClosed = false

  readLines(socket, value => {
    const event = ControlEvent.safeParse(value)
    if (event.success) options.onEvent(event.data)
    else settle(value)
    return true
  })
  socket.on('error', () => undefined) // 'close' follows
  socket.once('end', () => socket.destroy())
  socket.once('close', () => {
    for (const { reject } of waiting.values()) reject(new Error('the connection to the egress process broke'))
    waiting.clear()
    if (!isClosed && control !== undefined) options.onLost()
  })

  function settle(value: unknown): void {
    const { id } = (value ?? {}) as { id?: unknown }
    const request = typeof id === 'number' ? waiting.get(id) : undefined
    if (typeof id !== 'number' || request === undefined) return
    waiting.delete(id)
    const failure = ControlFailure.safeParse(value)
    if (failure.success) request.reject(new Error(failure.data.error))
    else request.resolve(value)
  }

  async function request<T extends RequestType>(type: T, fields: Fields<T>, ms = REPLY_MS): Promise<ControlReplies[T]> {
    if (socket.destroyed) throw new Error('the connection to the egress process is closed')
    const id = ++lastId
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    waiting.set(id, { resolve, reject })
    writeLine(socket, { ...fields, id, type })
    try {
      return CONTROL_REPLIES[type].parse(await withDeadline(promise, ms)) as ControlReplies[T]
    } finally {
      waiting.delete(id)
    }
  }

  let control: Control | undefined
  try {
    const hello = await request('hello', { version: CONTROL_VERSION }, HELLO_MS)
    control = {
      hello,
      request,
      close() {
        isClosed = true
        socket.destroy()
      },
    }
    return control
  } catch (error) {
    socket.destroy()
    throw error
  }
}

export const isSameVersion = ({ hello }: Control): boolean => hello.version === CONTROL_VERSION

/** True for the error of a connection to a socket that is not there, or that a process left which has ended. */
export const isUnheard = (error: unknown): boolean =>
  ['ENOENT', 'ECONNREFUSED'].includes((error as NodeJS.ErrnoException).code ?? '')

/** A connection to the socket, before its first line. */
export function dial(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path, allowHalfOpen: true })
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      resolve(socket)
    })
  })
}
