// The control socket: the daemon configures the process here. SECURITY: the socket is in a folder that only its owner and root can enter.
import { createServer, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { readLines, writeLine } from './lines.ts'
import { CONTROL_VERSION, type ControlEvent, type ControlReplies, ControlRequest, Relay } from './messages.ts'

type RequestType = ControlRequest['type']
type Request<T extends RequestType> = Extract<ControlRequest, { type: T }>

/** One function per request. An error is sent to the daemon by its message. */
export type ControlHandlers = {
  [T in Exclude<RequestType, 'hello'>]: (request: Request<T>) => Promise<ControlReplies[T]> | ControlReplies[T]
} & {
  hello(): Omit<ControlReplies['hello'], 'version' | 'pid'>
  /** The byte stream to the runner of a session, through the daemon. */
  relay(session: string, stream: Duplex): void
}

export interface ControlServer {
  /** Whether a daemon is connected. */
  readonly isConnected: boolean
  announce(event: ControlEvent): void
  close(): void
}

/** Resolves when the socket accepts connections. */
export async function serveControl(path: string, handlers: ControlHandlers): Promise<ControlServer> {
  const connections = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, socket => {
    socket.on('error', () => undefined) // 'close' follows
    readLines(socket, value => {
      const relay = Relay.safeParse(value)
      if (relay.success) {
        connections.delete(socket)
        handlers.relay(relay.data.session, socket)
        return false
      }
      connections.add(socket)
      void answer(socket, value, handlers)
      return true
    })
    socket.once('end', () => socket.end())
    socket.once('close', () => connections.delete(socket))
  })
  await listening(server, path)
  return {
    get isConnected() {
      return connections.size > 0
    },
    announce(event) {
      for (const socket of connections) writeLine(socket, event)
    },
    close() {
      server.close()
      for (const socket of connections) socket.destroy()
    },
  }
}

async function answer(socket: Socket, value: unknown, handlers: ControlHandlers): Promise<void> {
  const parsed = ControlRequest.safeParse(value)
  // SECURITY: the request may hold secrets, so neither it nor the parser's message is repeated.
  if (!parsed.success) return writeLine(socket, { id: idOf(value), error: 'the request does not follow the protocol' })
  const request = parsed.data
  try {
    writeLine(socket, { id: request.id, ...(await handle(request, handlers)) })
  } catch (error) {
    writeLine(socket, { id: request.id, error: error instanceof Error ? error.message : String(error) })
  }
}

const idOf = (value: unknown): number =>
  typeof value === 'object' && value !== null && 'id' in value && typeof value.id === 'number' ? value.id : 0

async function handle(request: ControlRequest, handlers: ControlHandlers): Promise<object> {
  switch (request.type) {
    case 'hello':
      return { version: CONTROL_VERSION, pid: process.pid, ...handlers.hello() }
    case 'configure':
      return await handlers.configure(request)
    case 'put_session':
      return await handlers.put_session(request)
    case 'remove_session':
      return await handlers.remove_session(request)
    case 'list_sessions':
      return await handlers.list_sessions(request)
    case 'answer_approval':
      return await handlers.answer_approval(request)
    case 'metrics':
      return await handlers.metrics(request)
    case 'shutdown':
      return await handlers.shutdown(request)
  }
}

const listening = (server: Server, path: string) =>
  new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, () => {
      server.off('error', reject)
      resolve()
    })
  })
