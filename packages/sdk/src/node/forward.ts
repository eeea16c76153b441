// Port forwards: each connection to the local port has a WebSocket of its own to the port in the sandbox.
import type { Server, Socket } from 'node:net'
import type { Forward, ForwardOptions } from '../session/forward.ts'
import type { ByteSocket } from '../transport/socket.ts'
import { withResolvers } from '../transport/with-resolvers.ts'
import type { Cancel } from '../wire-types.ts'

type Dial = (options: Cancel) => Promise<ByteSocket>

/** SECURITY: loopback by default, so that a forward does not open the sandbox to the network of this machine. */
const LOOPBACK = '127.0.0.1'

export async function forward(dial: Dial, { localPort = 0, host = LOOPBACK, onError, signal }: ForwardOptions): Promise<Forward> {
  signal?.throwIfAborted()
  const stop = new AbortController()
  const server = process.getBuiltinModule('node:net').createServer({ allowHalfOpen: true }, socket => {
    carry(dial, socket, stop.signal).catch(error => {
      socket.destroy()
      if (!stop.signal.aborted) onError?.(error)
    })
  })
  const closed = withResolvers<void>()
  server.once('close', closed.resolve)
  const port = await listen(server, localPort, host)
  const close = () => {
    signal?.removeEventListener('abort', close)
    stop.abort()
    server.close()
    return closed.promise
  }
  signal?.addEventListener('abort', close)
  if (signal?.aborted) {
    await close()
    signal.throwIfAborted()
  }
  return { host, port, close, [Symbol.asyncDispose]: close }
}

function listen(server: Server, port: number, host: string): Promise<number> {
  const { promise, resolve, reject } = withResolvers<number>()
  server.once('error', reject)
  server.listen(port, host, () => {
    const address = server.address()
    resolve(typeof address === 'object' && address ? address.port : port)
  })
  return promise
}

/** Copies bytes in both directions until one side ends. */
async function carry(dial: Dial, socket: Socket, signal: AbortSignal): Promise<void> {
  const gone = new AbortController()
  socket.on('error', () => gone.abort())
  try {
    const remote = await dial({ signal: AbortSignal.any([signal, gone.signal]) })
    try {
      await Promise.all([upward(socket, remote), downward(remote, socket)])
    } finally {
      remote.close()
    }
  } catch (error) {
    if (!gone.signal.aborted) throw error // the local client closed the connection
  } finally {
    socket.destroy()
  }
}

/** Not an async iterator: in Node 20 it destroys the socket at the end of its input, before the reply is sent. */
async function upward(socket: Socket, remote: ByteSocket): Promise<void> {
  const { promise, resolve, reject } = withResolvers<void>()
  socket.on('data', (piece: Buffer<ArrayBuffer>) => {
    socket.pause()
    remote.write(piece).then(() => void socket.resume(), reject)
  })
  socket.once('end', resolve).once('close', resolve)
  await promise
  // An empty message ends this direction.
  await remote.write(new Uint8Array())
}

async function downward(remote: ByteSocket, socket: Socket): Promise<void> {
  for await (const piece of remote) if (!socket.write(piece)) await drained(socket)
  socket.end()
}

function drained(socket: Socket): Promise<void> {
  const { promise, resolve } = withResolvers<void>()
  socket.once('drain', resolve).once('close', resolve)
  return promise.finally(() => socket.off('drain', resolve).off('close', resolve))
}
