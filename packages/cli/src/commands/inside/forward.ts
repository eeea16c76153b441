import type { ForwardOptions, Session } from '@sandglass/sdk'
import type { Command, Context } from '../../command.ts'
import { usage } from '../../parser/parse.ts'

export const command: Command = {
  summary: 'Make a port of a session reachable on this machine',
  usage: ['NAME LOCAL[:REMOTE]...'],
  about: `Listens on 127.0.0.1 until Ctrl-C. With 0 as LOCAL, a free port is chosen:
  sandglass forward calm-otter 8000        127.0.0.1:8000 leads to its port 8000
  sandglass forward calm-otter 9000:80     127.0.0.1:9000 leads to its port 80`,
  options: {},
  completes: 'session',
  async run({ args: [name, ...pairs] }, context) {
    if (name === undefined || pairs.length === 0)
      throw usage('NAME and a port are required, as in sandglass forward calm-otter 8000')
    const forwards = pairs.map(parsePorts)
    const client = await context.connect()
    const session = await client.getSession(name)
    const stop = new AbortController()
    const options = { signal: stop.signal, onError: (error: unknown) => void context.report(error) }
    try {
      await Promise.all(forwards.map(ports => open(session, ports, options, context)))
      await interrupted()
    } finally {
      stop.abort()
    }
    return 0
  },
}

type Ports = { local: number; remote: number }

async function open(
  session: Session,
  { local, remote }: Ports,
  options: ForwardOptions,
  { json, print }: Context,
): Promise<void> {
  const { port } = await session.forward(remote, { ...options, localPort: local }).catch(error => {
    throw refusedPort(error, local)
  })
  print(json ? `${JSON.stringify({ local: port, remote })}\n` : `127.0.0.1:${port} -> ${session.name}:${remote}\n`)
}

function refusedPort(error: unknown, port: number): unknown {
  const { code, syscall, message } = error as NodeJS.ErrnoException
  if (syscall !== 'listen') return error
  return usage(
    `cannot listen on 127.0.0.1:${port}: ${code === 'EADDRINUSE' ? 'the port is in use' : message}`,
    `choose another local port with LOCAL:REMOTE, or a free one with 0:REMOTE`,
  )
}

function parsePorts(pair: string): Ports {
  const [, local, remote = local] = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(pair) ?? []
  const ports = { local: Number(local), remote: Number(remote) }
  if (local === undefined || ports.local > 65_535 || ports.remote > 65_535 || ports.remote < 1)
    throw usage(`${pair} is not a port: write LOCAL or LOCAL:REMOTE, like 8000 or 9000:80`)
  return ports
}

function interrupted(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve())
  return promise
}
