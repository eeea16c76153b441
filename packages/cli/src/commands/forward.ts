import { createServer, type Socket } from 'node:net'
import type { Session } from '@sandglass/sdk'
import type { Command } from '../command.ts'
import { usage } from '../parse.ts'

export const command: Command = {
  summary: 'Make a port of a session reachable on this machine',
  usage: ['NAME LOCAL[:REMOTE]...'],
  about: `Listens on 127.0.0.1 until Ctrl-C. LOCAL 0 picks a free port:
  sandglass forward calm-otter 8000        127.0.0.1:8000 leads to 8000 inside
  sandglass forward calm-otter 9000:80     127.0.0.1:9000 leads to 80 inside`,
  options: {},
  completes: 'session',
  async run({ args: [name, ...pairs] }, context) {
    if (name === undefined || pairs.length === 0) throw usage('NAME and a port are needed, like forward calm-otter 8000')
    const forwards = pairs.map(parsePorts)
    const client = await context.connect()
    const session = await client.getSession(name)
    await session.ports() // refused when it does not run, before anything listens
    const stop = new AbortController()
    const servers = await Promise.all(
      forwards.map(async ({ local, remote }) => {
        const server = createServer({ allowHalfOpen: true }, socket => {
          join(session, remote, socket, stop.signal).catch((error: Error) => {
            if (!stop.signal.aborted) void context.report(error)
            socket.destroy()
          })
        })
        await listen(server, local)
        const address = server.address()
        const port = typeof address === 'object' && address ? address.port : local
        if (context.json) context.print(`${JSON.stringify({ local: port, remote })}\n`)
        else context.print(`127.0.0.1:${port} -> ${session.name}:${remote}\n`)
        return server
      }),
    )
    await interrupted()
    stop.abort()
    for (const server of servers) server.close()
    return 0
  },
}

/** Carries bytes both ways until either side is done. */
async function join(session: Session, port: number, socket: Socket, signal: AbortSignal): Promise<void> {
  const gone = new AbortController()
  socket.on('error', () => gone.abort())
  const remote = await session.dial(port, { signal: AbortSignal.any([signal, gone.signal]) })
  const upward = async () => {
    for await (const piece of socket) await remote.write(piece)
    // An empty message ends this direction; the answer may still be on its way.
    await remote.write(new Uint8Array())
  }
  const downward = async () => {
    for await (const piece of remote) if (!socket.write(piece)) await drained(socket)
    socket.end()
  }
  try {
    await Promise.all([upward(), downward()])
  } finally {
    remote.close()
    socket.destroy()
  }
}

function drained(socket: Socket): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  socket.once('drain', resolve).once('close', resolve)
  return promise.finally(() => socket.off('drain', resolve).off('close', resolve))
}

function listen(server: ReturnType<typeof createServer>, port: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', (error: NodeJS.ErrnoException) =>
    reject(
      usage(
        `cannot listen on 127.0.0.1:${port}: ${error.code === 'EADDRINUSE' ? 'the port is taken' : error.message}`,
        `choose another port here with LOCAL:REMOTE, or 0:REMOTE for a free one`,
      ),
    ),
  )
  // SECURITY: loopback only; a forward must not open the sandbox to the network that this machine is in.
  server.listen(port, '127.0.0.1', resolve)
  return promise
}

function parsePorts(pair: string): { local: number; remote: number } {
  const [, local, remote = local] = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(pair) ?? []
  const ports = { local: Number(local), remote: Number(remote) }
  if (local === undefined || ports.local > 65_535 || ports.remote > 65_535 || ports.remote < 1)
    throw usage(`${pair} is no port: write LOCAL or LOCAL:REMOTE, like 8000 or 9000:80`)
  return ports
}

function interrupted(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve())
  return promise
}
