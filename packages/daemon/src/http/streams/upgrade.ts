// The handshake of a WebSocket. Everything that can be refused is refused here, as a plain HTTP reply, before the upgrade.
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { PATHS, ROUTES, type Route, type RouteName, SandglassError, SOCKET_PROTOCOL } from '@sandglass/contract'
import { type WebSocket, WebSocketServer } from 'ws'
import { explainLoss } from '../../sessions/lifecycle/explain-loss.ts'
import type { Api, Handlers, UpgradeCall } from '../api.ts'
import { toSandglassError } from '../errors.ts'
import { handlersOf } from '../handlers.ts'
import { bearerKey, keyChecker, protocolKey } from '../requests/auth.ts'
import { isLocalHost, isSameOrigin } from '../requests/host-check.ts'
import { requestIds } from '../requests/request-id.ts'

const MAX_MESSAGE = 1024 * 1024
const RESTARTING = 1012
const CLOSE_MS = 500

export type Upgrades = { attach(server: Server, isLoopback: boolean): void; closeAll(): void }

export function createUpgrades(api: Api): Upgrades {
  const sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE,
    handleProtocols: offered => (offered.has(SOCKET_PROTOCOL) ? SOCKET_PROTOCOL : false),
  })
  const handlers = handlersOf(api)
  const isKey = keyChecker(api.apiKey)
  const newId = requestIds()

  return {
    attach(server, isLoopback) {
      server.on('upgrade', (request, socket, head) => {
        const gone = new AbortController()
        const requestId = newId(request)
        const log = api.context.log.child({ requestId })
        socket.on('error', err => log.debug({ err }, 'connection failed'))
        socket.once('close', () => gone.abort())
        open(request, isLoopback, AbortSignal.any([api.context.closing, gone.signal]), log)
          .then(run => {
            if (socket.destroyed) return
            sockets.handleUpgrade(request, socket, head, run)
          })
          .catch(error => refuse(socket, toSandglassError(error, log), requestId))
      })
    },
    closeAll() {
      for (const socket of sockets.clients) {
        socket.close(RESTARTING, 'the daemon is stopping')
        // A client that does not answer would keep the server from closing.
        setTimeout(() => socket.terminate(), CLOSE_MS).unref()
      }
    },
  }

  async function open(
    request: IncomingMessage,
    isLoopback: boolean,
    signal: AbortSignal,
    log: Api['context']['log'],
  ): Promise<(socket: WebSocket) => void> {
    const { headers, url = '/' } = request
    if (isLoopback && !isLocalHost(headers.host))
      throw new SandglassError('INVALID_REQUEST', { issue: 'Host: is not a name of this daemon' })
    // SECURITY: a page of another site must itself know the key; what else a browser might attach does not count for it.
    const offered = protocolKey(request) ?? (isSameOrigin(headers.origin, headers.host) ? bearerKey(request) : null)
    if (!isKey(offered)) throw new SandglassError('UNAUTHORIZED', {})
    if (api.context.closing.aborted) throw new SandglassError('SHUTTING_DOWN', {})
    const { pathname, searchParams } = parsedUrl(url)
    const found = match(pathname)
    if (!found) throw new SandglassError('ROUTE_NOT_FOUND', { method: 'GET', path: pathname })
    const route: Route = ROUTES[found.name]
    const call = {
      params: route.params?.parse(found.params),
      query: route.query?.parse(Object.fromEntries(searchParams)),
      signal,
      log,
    }
    try {
      return await (handlers[found.name] as Handlers['attachShell'])(call as UpgradeCall<'attachShell'>)
    } catch (error) {
      throw await explainLoss(api.context, found.params.id ?? '', error)
    }
  }
}

function parsedUrl(url: string): URL {
  const parsed = URL.parse(url, 'http://daemon')
  if (!parsed) throw new SandglassError('INVALID_REQUEST', { issue: 'the path is not well formed' })
  return parsed
}

const PATTERNS = (Object.keys(PATHS) as RouteName[])
  .filter(name => PATHS[name].kind === 'websocket')
  .map(name => ({ name, pattern: new RegExp(`^${PATHS[name].path.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`) }))

function match(pathname: string): { name: RouteName; params: Record<string, string> } | null {
  for (const { name, pattern } of PATTERNS) {
    const groups = pattern.exec(pathname)?.groups
    if (groups) return { name, params: Object.fromEntries(Object.entries(groups).map(([param, text]) => [param, decoded(text)])) }
  }
  return null
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch (cause) {
    throw new SandglassError('INVALID_REQUEST', { issue: `the path is not well encoded: ${text}` }, { cause })
  }
}

function refuse(socket: Duplex, error: SandglassError, requestId: string): void {
  const body = JSON.stringify({ error: error.toWire(requestId) })
  socket.end(
    [
      `HTTP/1.1 ${error.httpStatus} Refused`,
      'Content-Type: application/json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      `X-Request-Id: ${requestId}`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  )
}
