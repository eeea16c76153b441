// The checks that every request passes before its body is read, upgrades to a WebSocket included: Host, origin, key.
import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { type Route, SandglassError, SOCKET_KEY_PREFIX } from '@sandglass/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Api } from '../api.ts'

/** Throws for a request that is refused. */
export type AccessCheck = (request: FastifyRequest, response: FastifyReply, route: Route | null, isUpgrade: boolean) => Admitted
/** A preflight is the question of a browser whether a page may call. It is answered with the headers that are set by now. */
export type Admitted = 'call' | 'preflight'

export function createAccessCheck({ context, apiKey }: Api): AccessCheck {
  const isKey = keyChecker(apiKey)
  return (request, response, route, isUpgrade) => {
    response.header('x-request-id', request.id)
    const { headers, method, url } = request
    if (isLoopback(request) && !isLocalHost(headers.host))
      throw new SandglassError('INVALID_REQUEST', { issue: 'Host: is not a name of this daemon' })
    if (allowOrigin(context.config.cors_origins, request, response)) return 'preflight'
    if (!route?.public && !isKey(isUpgrade ? upgradeKey(headers) : bearerKey(headers)))
      throw new SandglassError('UNAUTHORIZED', {})
    if (context.closing.aborted) throw new SandglassError('SHUTTING_DOWN', {})
    if (route && (route.kind === 'websocket') !== isUpgrade)
      throw new SandglassError('ROUTE_NOT_FOUND', { method, path: url.split('?')[0] ?? '' })
    return 'call'
  }
}

/** SECURITY: digests of equal length are compared in constant time, so that neither the key nor its length can be measured. */
function keyChecker(apiKey: string): (offered: string | null) => boolean {
  const expected = digest(apiKey)
  return offered => offered !== null && timingSafeEqual(digest(offered), expected)
}

const digest = (text: string) => hash('sha256', text, 'buffer')

function bearerKey({ authorization }: IncomingHttpHeaders): string | null {
  return authorization !== undefined && /^bearer /i.test(authorization) ? authorization.slice(7).trim() : null
}

/** SECURITY: a page of another origin must know the key itself: an Authorization header that a browser adds does not count for it. */
function upgradeKey(headers: IncomingHttpHeaders): string | null {
  return protocolKey(headers) ?? (isSameOrigin(headers) ? bearerKey(headers) : null)
}

/** A browser cannot set headers on a WebSocket. It offers the key as a subprotocol: see socketProtocols in the contract. */
function protocolKey(headers: IncomingHttpHeaders): string | null {
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map(entry => entry.trim())
  const key = offered.find(entry => entry.startsWith(SOCKET_KEY_PREFIX))
  return key === undefined ? null : Buffer.from(key.slice(SOCKET_KEY_PREFIX.length), 'base64url').toString('utf8')
}

/** Programs send no Origin. */
function isSameOrigin({ origin, host }: IncomingHttpHeaders): boolean {
  return origin === undefined || URL.parse(origin)?.host === host
}

function isLoopback({ socket }: FastifyRequest): boolean {
  const address = socket.localAddress ?? ''
  return address.startsWith('127.') || address === '::1' || address.startsWith('::ffff:127.')
}

/**
 * SECURITY: a web page whose name was made to resolve to 127.0.0.1 (DNS rebinding) talks to a loopback listener from the user's browser, as
 * its own origin. Its Host header still carries the page's name, so only addresses and localhost are answered.
 */
function isLocalHost(header: string | undefined): boolean {
  if (header === undefined) return true
  const host = header.replace(/:\d+$/, '').toLowerCase()
  return (
    host === 'localhost' ||
    host.endsWith('.localhost') ||
    isIP(host) !== 0 ||
    (host.startsWith('[') && isIP(host.slice(1, -1)) === 6)
  )
}

const PREFLIGHT_HEADERS = {
  'access-control-allow-methods': 'GET, POST, PUT, DELETE',
  'access-control-allow-headers':
    'authorization, content-type, idempotency-key, last-event-id, range, x-build-args, x-request-id',
  'access-control-max-age': '600',
}

/**
 * Sets the CORS headers for a page whose origin is in cors_origins. True for a preflight, which has no key.
 * SECURITY: a browser hides a reply from a page of another origin unless the reply names that origin. A listed page still needs the key:
 * access-control-allow-credentials is never sent, so cookies and the like do not count.
 */
function allowOrigin(origins: readonly string[], { method, headers }: FastifyRequest, { raw }: FastifyReply): boolean {
  if (origins.length === 0) return false
  // On the raw response, because streams and file bodies are written to it directly.
  raw.setHeader('vary', 'origin')
  if (headers.origin === undefined || !origins.includes(headers.origin)) return false
  raw.setHeader('access-control-allow-origin', headers.origin)
  raw.setHeader('access-control-expose-headers', 'x-request-id, content-range')
  if (method !== 'OPTIONS' || headers['access-control-request-method'] === undefined) return false
  for (const [name, value] of Object.entries(PREFLIGHT_HEADERS)) raw.setHeader(name, value)
  return true
}
