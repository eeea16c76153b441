// The protocol engine with a handler that forwards every request to one server, and clients that send bytes as they are told.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { connect as connectSecurely } from 'node:tls'
import { onTestFinished } from 'vitest'
import { type AuthorityFiles, createAuthority } from '../tls/authority.ts'
import { createLeafCache } from '../tls/leaf.ts'
import { terminateTls } from '../tls/terminate.ts'
import { createTrust } from '../tls/upstream-tls.ts'
import type { HttpError } from './errors.ts'
import type { ServerTimeouts } from './h1/connection.ts'
import type { Origin } from './h1/head.ts'
import { serveHttp1 } from './h1-server.ts'
import { serveHttp2 } from './h2-server.ts'
import type { Exchange, Handler } from './message.ts'
import { splice } from './splice.ts'
import { createUpstreams, type Route } from './upstream.ts'

/** Authority of all certificates in a test file. */
export const testAuthority: AuthorityFiles = await createAuthority()
const leaves = createLeafCache()
const trust = createTrust([testAuthority.certificate])

export interface ProxyOptions {
  /** Port of the server that requests are forwarded to. */
  readonly to: number
  readonly scheme?: 'http' | 'https'
  readonly isProxy?: boolean
  readonly host?: string | null
  readonly timeouts?: ServerTimeouts
  /** Instead of forwarding. */
  readonly handler?: (exchange: Exchange, forward: Handler) => Promise<void>
  readonly route?: Partial<Route>
  /** The proxy gets a Duplex without a native handle, as from a carrier with many streams. */
  readonly isWrapped?: boolean
}

export interface TestProxy {
  readonly port: number
  readonly refused: HttpError[]
  readonly exchanges: Exchange[]
  /** What handlers threw. */
  readonly failures: unknown[]
  readonly sockets: Set<Socket>
}

export async function startProxy(options: ProxyOptions): Promise<TestProxy> {
  const { scheme = 'https', to } = options
  const upstreams = createUpstreams(() => trust)
  const refused: HttpError[] = []
  const exchanges: Exchange[] = []
  const failures: unknown[] = []
  const forward: Handler = async exchange => {
    const { head, body, signal } = exchange
    const upstream = await upstreams.acquire(routeTo(to, head.version === '2', { scheme, ...options.route }), signal)
    const trailers = () => exchange.trailers()
    const reply = await upstream.send({ head: { ...head, host: 'localhost', port: to }, body, trailers, signal })
    if (reply.tunnel !== null) await splice(exchange.upgrade(reply.head), reply.tunnel)
    else await exchange.respond(reply.head, reply.body, reply.trailers)
  }
  const handler: Handler = exchange => {
    exchanges.push(exchange)
    return options.handler?.(exchange, forward) ?? forward(exchange)
  }
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, socket => {
    sockets.add(socket)
    const origin: Origin = {
      scheme,
      port: (server.address() as AddressInfo).port,
      host: options.host ?? null,
      isProxy: options.isProxy ?? false,
      normaliseHost: host => host.toLowerCase().replace(/^\[|\]$/g, ''),
    }
    const serving = { origin, onRefused: (error: HttpError) => void refused.push(error), timeouts: options.timeouts }
    serve(options.isWrapped ? wrap(socket) : socket, scheme, serving, handler).catch(error => failures.push(error))
  })
  const port = await listen(server)
  onTestFinished(() => {
    upstreams.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port, refused, exchanges, failures, sockets }
}

/** The same bytes, without a native handle. */
function wrap(socket: Socket): Duplex {
  const wrapped = new Duplex({
    read: () => void socket.resume(),
    write: (chunk, _encoding, done) => void socket.write(chunk, done),
    final: done => void socket.end(done),
    destroy: (error, done) => {
      socket.destroy()
      done(error)
    },
  })
  socket.on('data', data => wrapped.push(data) || socket.pause())
  socket.on('end', () => wrapped.push(null))
  socket.on('error', () => undefined).on('close', () => wrapped.destroy())
  return wrapped
}

async function serve(socket: Duplex, scheme: string, options: Parameters<typeof serveHttp1>[1], handler: Handler): Promise<void> {
  if (scheme === 'http') return await serveHttp1(socket, options, handler)
  const context = await leaves.contextFor(testAuthority, 'localhost')
  const secure = await terminateTls(socket, context, { alpn: ['h2', 'http/1.1'] })
  await (secure.alpnProtocol === 'h2' ? serveHttp2(secure, options, handler) : serveHttp1(secure, options, handler))
}

export const routeTo = (port: number, prefersHttp2: boolean, changes: Partial<Route> = {}): Route => ({
  sessionId: 'session',
  secretSet: '',
  scheme: 'https',
  host: 'localhost',
  port,
  dialPort: port,
  addresses: [{ address: '127.0.0.1', family: 4 }],
  proxy: null,
  prefersHttp2,
  ...changes,
})

/** Options for node:https and node:http2 servers: a certificate for localhost that the proxy trusts. */
export async function serverCertificate(): Promise<{ secureContext: import('node:tls').SecureContext }> {
  return { secureContext: await leaves.contextFor(testAuthority, 'localhost') }
}

/** Listens on a free port until the test ends. */
export async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

/** A server that answers with exactly these bytes, per connection and per request. `requests` collects what it got. */
export async function startRawServer(
  onData: (socket: Socket, received: string) => void,
): Promise<{ port: number; connections: Socket[] }> {
  const connections: Socket[] = []
  const server = createServer(socket => {
    let received = ''
    connections.push(socket)
    socket.on('error', () => undefined)
    socket.setEncoding('latin1').on('data', data => {
      received += data
      onData(socket, received)
    })
  })
  const port = await listen(server)
  onTestFinished(() => {
    for (const socket of connections) socket.destroy()
  })
  return { port, connections }
}

export function dialTest(port: number, isSecure = false): Duplex {
  const socket = isSecure
    ? connectSecurely({
        port,
        host: '127.0.0.1',
        servername: 'localhost',
        ca: testAuthority.certificate,
        ALPNProtocols: ['http/1.1'],
      })
    : connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  socket.on('error', () => undefined)
  onTestFinished(() => void socket.destroy())
  return socket
}

/** Sends the parts, each as a segment of its own, and returns everything that comes back until the server closes or `isDone`. */
export async function exchangeRaw(
  port: number,
  parts: string | string[],
  isDone: (text: string) => boolean = () => false,
): Promise<string> {
  const socket = dialTest(port)
  let text = ''
  const finished = new Promise<void>(resolve => {
    socket.on('data', (data: Buffer) => {
      text += data.toString('latin1')
      if (isDone(text)) resolve()
    })
    socket.once('end', resolve).once('close', resolve)
  })
  for (const part of [parts].flat()) {
    socket.write(part, 'latin1')
    await new Promise(resolve => setImmediate(resolve))
  }
  await finished
  socket.destroy()
  return text
}
