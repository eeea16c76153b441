// Opens a TCP connection to a server: by addresses that have been checked, or through an HTTP proxy.
import { connect, isIP, type Socket } from 'node:net'
import { HttpError } from '../errors.ts'
import { parseResponseHead } from '../h1/head.ts'
import { readHead } from '../h1/read-head.ts'
import { SocketReader } from '../h1/socket-reader.ts'
import { writeAuthority } from '../syntax.ts'

export interface DialAddress {
  readonly address: string
  readonly family: 4 | 6
}

export interface UpstreamProxy {
  readonly host: string
  readonly port: number
  /** Value of Proxy-Authorization. */
  readonly authorization: string | null
}

export interface DialTarget {
  readonly host: string
  readonly port: number
  /** SECURITY: dialled as they are. A second lookup could give an address that nobody has checked. Ignored if there is a proxy. */
  readonly addresses: readonly DialAddress[]
  /** Port at these addresses, which differs from `port` for a configured address. */
  readonly dialPort: number
  readonly proxy: UpstreamProxy | null
}

/** The next address is tried when one has not answered for so long. */
const STAGGER_MS = 250
const CONNECT_MS = 10_000
const KEEP_ALIVE_MS = 60_000

/** `http://user:password@host:port` */
export function parseProxy(url: string): UpstreamProxy {
  const { protocol, hostname, port, username, password } = new URL(url)
  if (protocol !== 'http:') throw new Error('the upstream proxy must be an http:// URL')
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? 80 : Number(port),
    authorization: username === '' ? null : `Basic ${Buffer.from(credentials).toString('base64')}`,
  }
}

/** A connection to the target itself, through the proxy if there is one. */
export async function dial(target: DialTarget, signal: AbortSignal | null): Promise<Socket> {
  const { proxy } = target
  if (proxy === null) return await dialAddresses(target.addresses, target.dialPort, signal)
  const socket = await dialProxy(proxy, signal)
  return await connectThrough(socket, proxy, target)
}

/** Which of the addresses a connection leads to, as it was written there. */
export function dialledAddress({ remoteAddress }: Socket, { addresses }: DialTarget): string | null {
  const same = ({ address }: DialAddress) => address === remoteAddress || (addresses.length === 1 && remoteAddress !== undefined)
  return addresses.find(same)?.address ?? remoteAddress ?? null
}

/** A connection to the proxy, for plain requests with an absolute URL. */
export async function dialProxy({ host, port }: UpstreamProxy, signal: AbortSignal | null): Promise<Socket> {
  return await race([() => open({ host, port })], signal)
}

async function dialAddresses(addresses: readonly DialAddress[], port: number, signal: AbortSignal | null): Promise<Socket> {
  if (addresses.length === 0) throw new HttpError('unreachable', 'the host has no address')
  // SECURITY: a name would be looked up again, and nobody would check the result.
  if (addresses.some(({ address }) => isIP(address) === 0)) throw new Error('only addresses can be dialled')
  return await race(
    addresses.map(
      ({ address, family }) =>
        () =>
          open({ host: address, port, family }),
    ),
    signal,
  )
}

const open = (to: { host: string; port: number; family?: number }): Socket =>
  connect({ ...to, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS, allowHalfOpen: true })

/** The first connection that is established, of attempts that start one after the other. */
function race(attempts: readonly (() => Socket)[], signal: AbortSignal | null): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const open = new Set<Socket>()
  let next = 0
  let failure: Error | null = null
  const settle = (outcome: () => void, winner: Socket | null) => {
    clearInterval(stagger)
    clearTimeout(timer)
    signal?.removeEventListener('abort', onAbort)
    if (winner !== null) open.delete(winner)
    for (const socket of open) socket.destroy()
    outcome()
  }
  const fail = (error: unknown) => settle(() => reject(error), null)
  const onAbort = () => fail(signal?.reason)
  const start = () => {
    const attempt = attempts[next]
    if (attempt === undefined) return clearInterval(stagger)
    next += 1
    const socket = attempt()
    open.add(socket)
    socket.once('error', error => {
      failure ??= error
      open.delete(socket)
      if (next < attempts.length) start()
      else if (open.size === 0) fail(unreachable(failure))
    })
    socket.once('connect', () => settle(() => resolve(socket), socket))
  }
  const stagger = setInterval(start, STAGGER_MS)
  const timer = setTimeout(
    () => fail(new HttpError('upstream_timeout', 'the server did not accept the connection in time')),
    CONNECT_MS,
  )
  if (signal?.aborted) onAbort()
  else {
    signal?.addEventListener('abort', onAbort)
    start()
  }
  return promise
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'the server refuses connections',
  ECONNRESET: 'the server reset the connection',
  EHOSTUNREACH: 'there is no route to the server',
  ENETUNREACH: 'there is no route to the server',
  ENOTFOUND: 'the upstream proxy has no address',
}

function unreachable(cause: NodeJS.ErrnoException): HttpError {
  if (cause.code === 'ETIMEDOUT')
    return new HttpError('upstream_timeout', 'the server did not accept the connection in time', { cause })
  return new HttpError('unreachable', REASONS[cause.code ?? ''] ?? 'the server cannot be reached', { cause })
}

async function connectThrough(socket: Socket, { authorization }: UpstreamProxy, { host, port }: DialTarget): Promise<Socket> {
  // The port is written even if it is the usual one: nothing else says which one is meant.
  const authority = `${writeAuthority('https', host, 443)}:${port}`
  const credentials = authorization === null ? '' : `Proxy-Authorization: ${authorization}\r\n`
  const reader = new SocketReader(socket, { onHeld: () => undefined, onEnd: () => undefined })
  const timer = setTimeout(
    () => reader.interrupt(new HttpError('upstream_timeout', 'the upstream proxy did not answer in time')),
    CONNECT_MS,
  )
  try {
    socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${credentials}\r\n`, 'latin1')
    const text = await readHead(reader)
    if (text === null) throw new HttpError('unreachable', 'the upstream proxy closed the connection')
    const { status } = parseResponseHead(text, 'CONNECT').head
    if (status < 200 || status > 299)
      throw new HttpError('unreachable', `the upstream proxy refused the connection with status ${status}`)
    reader.detach()
    return socket
  } catch (error) {
    socket.destroy()
    throw error instanceof HttpError && error.status >= 502
      ? error
      : new HttpError('unreachable', 'the upstream proxy failed', { cause: error })
  } finally {
    clearTimeout(timer)
  }
}
