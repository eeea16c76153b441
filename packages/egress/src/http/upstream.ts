// Connections to servers: opened when needed, kept for a while, and never shared between sessions.
import type { SecureContext } from 'node:tls'
import { connectTls } from '../tls/upstream-tls.ts'
import { HttpError } from './errors.ts'
import { isFor, type Reply, StaleConnectionError, type UpstreamConnection, type UpstreamRequest } from './upstream/connection.ts'
import { type DialTarget, dial, dialledAddress, dialProxy } from './upstream/dial.ts'
import { H1Connection } from './upstream/h1-connection.ts'
import { H2Connection } from './upstream/h2-connection.ts'
import { IdlePool } from './upstream/idle-pool.ts'

export interface Route extends DialTarget {
  readonly sessionId: string
  /** Names the secrets that requests of this route carry. SECURITY: a connection that carried other secrets is not used again. */
  readonly secretSet: string
  readonly scheme: 'http' | 'https'
  /** True if the client speaks HTTP/2: then the server may too. */
  readonly prefersHttp2: boolean
}

/** A connection whose server has been verified, for one request. */
export interface Upstream {
  readonly protocol: '1.1' | '2'
  readonly address: string | null
  /** Once. A connection that was kept and turns out to be dead is replaced by another, if the request can be sent again. */
  send(request: UpstreamRequest): Promise<Reply>
  /** Instead of `send`. */
  release(): void
}

export interface Upstreams {
  /** SECURITY: secrets are put into a request after this has resolved: before, the server is not verified. */
  acquire(route: Route, signal: AbortSignal): Promise<Upstream>
  /** Closes the connections of a session, those under way included. */
  closeSession(sessionId: string): void
  close(): void
}

/** Requests with these methods can be sent twice. */
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

/** `trust` is asked for each connection: the roots that server certificates are verified with. */
export function createUpstreams(trust: () => SecureContext): Upstreams {
  const all = new Map<UpstreamConnection, string>()
  const idle = new IdlePool()
  const multiplexed = new Map<string, H2Connection>()
  /** The first connection that may become an HTTP/2 one; requests that come meanwhile wait for it. */
  const opening = new Map<string, Promise<UpstreamConnection>>()

  async function connectionFor(route: Route, signal: AbortSignal): Promise<UpstreamConnection> {
    const key = keyOf(route)
    if (!route.prefersHttp2) return idle.take(key, route) ?? (await open(route, key, ['http/1.1'], signal))
    const shared = multiplexed.get(key)
    if (shared?.isUsable && isFor(shared, route)) return shared
    const kept = idle.take(key, route)
    if (kept !== null) return kept
    const first = opening.get(key)
    if (first === undefined) return await openShared(route, key)
    const connection = await first
    const isShared = connection.protocol === '2' && connection.isUsable && isFor(connection, route)
    return isShared ? connection : await open(route, key, ['http/1.1'], signal)
  }

  /** Others wait for this connection, so that the end of one request does not end it. */
  async function openShared(route: Route, key: string): Promise<UpstreamConnection> {
    const connecting = open(route, key, ['h2', 'http/1.1'], null)
    opening.set(key, connecting)
    try {
      return await connecting
    } finally {
      opening.delete(key)
    }
  }

  async function open(route: Route, key: string, alpn: string[], signal: AbortSignal | null): Promise<UpstreamConnection> {
    const connection = await openConnection(route, alpn, signal)
    all.set(connection, route.sessionId)
    if (connection instanceof H2Connection) multiplexed.set(key, connection)
    return connection
  }

  async function openConnection(route: Route, alpn: string[], signal: AbortSignal | null): Promise<UpstreamConnection> {
    const { scheme, proxy, host } = route
    const isPlain = scheme === 'http'
    const key = keyOf(route)
    const socket = isPlain && proxy !== null ? await dialProxy(proxy, signal) : await dial(route, signal)
    const address = proxy === null ? dialledAddress(socket, route) : null
    const forget = (connection: UpstreamConnection) => {
      all.delete(connection)
      if (multiplexed.get(key) === connection) multiplexed.delete(key)
      if (connection instanceof H1Connection) idle.remove(key, connection)
    }
    const events = {
      onFree: (connection: H1Connection, idleSeconds: number | null) => idle.put(key, connection, idleSeconds),
      onClosed: forget,
    }
    if (isPlain) return new H1Connection(socket, address, proxy, events)
    const secure = await connectTls(socket, { host, alpn, context: trust(), signal })
    return secure.alpnProtocol === 'h2'
      ? new H2Connection(secure, address, forget)
      : new H1Connection(secure, address, null, events)
  }

  async function send(route: Route, connection: UpstreamConnection, request: UpstreamRequest): Promise<Reply> {
    try {
      return await connection.send(request)
    } catch (error) {
      // One that was never used, because the client had gone by then, would stay open.
      if (connection instanceof H1Connection) connection.destroy()
      if (!(error instanceof StaleConnectionError)) throw error
      if (!isRepeatable(request)) throw new HttpError('upstream_closed', error.message, { cause: error })
      const fresh = await open(route, keyOf(route), route.prefersHttp2 ? ['h2', 'http/1.1'] : ['http/1.1'], request.signal)
      return await fresh.send(request)
    }
  }

  function closeWhere(matches: (sessionId: string) => boolean): void {
    for (const [connection, sessionId] of all) if (matches(sessionId)) connection.destroy()
  }

  return {
    async acquire(route, signal) {
      const connection = await connectionFor(route, signal)
      return {
        protocol: connection.protocol,
        address: connection.address,
        send: request => send(route, connection, request),
        release: () => connection instanceof H1Connection && idle.put(keyOf(route), connection, null),
      }
    },
    closeSession: id => closeWhere(sessionId => sessionId === id),
    close: () => closeWhere(() => true),
  }
}

/** Without the addresses: a connection tells itself where it leads. */
function keyOf({ sessionId, secretSet, scheme, host, port, dialPort, proxy }: Route): string {
  return [sessionId, secretSet, scheme, host, port, dialPort, proxy === null ? '' : `${proxy.host}:${proxy.port}`].join('\n')
}

const isRepeatable = ({ head, body }: UpstreamRequest): boolean =>
  IDEMPOTENT.has(head.method) && (body === null || body instanceof Uint8Array)
