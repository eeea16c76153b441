// The HTTP application: every route of the contract, its validation, and the hooks that all requests pass.
import { LIMITS, PATHS, ROUTES, type Route, type RouteName, SandglassError } from '@sandglass/contract'
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import { Semaphore } from '../lib/semaphore.ts'
import type { Logger } from '../log.ts'
import { explainLoss } from '../sessions/lifecycle/explain-loss.ts'
import type { Api, Call, Handlers } from './api.ts'
import { toSandglassError } from './errors.ts'
import { handlersOf } from './handlers.ts'
import { reply, sessionOf, stopping } from './reply.ts'
import { bearerKey, keyChecker } from './requests/auth.ts'
import { watchBody } from './requests/body-deadline.ts'
import { admitOrigin } from './requests/cors.ts'
import { isLocalHost } from './requests/host-check.ts'
import { largeBytes, reserveBody } from './requests/large-bodies.ts'
import { requestIds } from './requests/request-id.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by readyz: the same body, with 503. */
    notReady?: boolean
  }
  interface FastifyContextConfig {
    name?: RouteName
  }
}

const LINGER_MS = 5000
/** Only in the metrics. */
const CLIENT_GONE = 499

export function createApp(api: Api): FastifyInstance {
  const app = fastify({
    logger: false,
    genReqId: requestIds(),
    bodyLimit: LIMITS.request_body_bytes.max,
    // A reference of an image, with every character escaped.
    routerOptions: { maxParamLength: 3 * LIMITS.image_reference.max },
    frameworkErrors: (error, request, response) => refusePath(error, request, response as FastifyReply),
  })
  const isKey = keyChecker(api.apiKey)
  const { httpSeconds } = api.context.metrics
  const logOf = (request: FastifyRequest) => api.context.log.child({ requestId: request.id })

  app.addHook('onRequest', async (request, response) => {
    const { name } = request.routeOptions.config
    if (admit(request, response, name ? ROUTES[name] : null)) return response.code(204).send()
    const totalMs = name !== undefined && isRaw(name) ? null : LIMITS.json_body_seconds.max * 1000
    watchBody(request, response, { stallMs: api.context.config.slow_body_seconds * 1000, totalMs }, error =>
      response
        .header('connection', 'close')
        .code(error.httpStatus)
        .send({ error: error.toWire(request.id) }),
    )
  })
  const largeBodies = new Semaphore(LIMITS.large_bodies_bytes.max)
  app.addHook('preParsing', async (request, response) => {
    const bytes = largeBytes(request.routeOptions.config.name, request)
    if (bytes === 0) return
    const release = await reserveBody(largeBodies, bytes, closed(response))
    response.raw.once('close', release)
    if (response.raw.destroyed) release()
  })
  app.addHook('onResponse', async (request, response) => {
    const route = request.routeOptions.config.name ?? 'none'
    httpSeconds.observe({ route, status: response.statusCode }, response.elapsedTime / 1000)
    if (api.context.log.isLevelEnabled('debug'))
      logOf(request).debug({ route, status: response.statusCode, ms: response.elapsedTime }, 'request')
  })
  app.setErrorHandler(async (error, request, response) => {
    const explained = await explainLoss(api.context, sessionOf(request), error)
    return sendError(whileClosing(api.context.closing, explained, request), request, response, logOf(request))
  })
  app.setNotFoundHandler((request, response) =>
    sendError(
      new SandglassError('ROUTE_NOT_FOUND', { method: request.method, path: request.url.split('?')[0] ?? '' }),
      request,
      response,
      logOf(request),
    ),
  )

  const handlers = handlersOf(api)
  const names = (Object.keys(PATHS) as RouteName[]).filter(name => PATHS[name].kind !== 'websocket')
  app.register(async scope => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('application/json', { parseAs: 'string' }, parseJson)
    for (const name of names) if (!isRaw(name)) addRoute(scope, name)
  })
  app.register(async scope => {
    scope.removeAllContentTypeParsers()
    // The body stays a stream: the handler passes it on as it arrives, whatever its type and size.
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null, undefined))
    for (const name of names) if (isRaw(name)) addRoute(scope, name)
  })
  return app

  /**
   * True when the request is a browser's question, and answered with that.
   * SECURITY: before the body is read, and also for paths that do not exist.
   */
  function admit(request: FastifyRequest, response: FastifyReply, route: Route | null): boolean {
    response.header('x-request-id', request.id)
    if (isLoopback(request) && !isLocalHost(request.headers.host))
      throw new SandglassError('INVALID_REQUEST', { issue: 'Host: is not a name of this daemon' })
    if (admitOrigin(api.context.config.cors_origins, request, response)) return true
    if (!route?.public && !isKey(bearerKey(request.raw))) throw new SandglassError('UNAUTHORIZED', {})
    if (api.context.closing.aborted) throw new SandglassError('SHUTTING_DOWN', {})
    return false
  }

  /** Of a path that no route can be looked for with, such as /%ff. No hook runs for it. */
  function refusePath(error: Error, request: FastifyRequest, response: FastifyReply): FastifyReply {
    try {
      return admit(request, response, null) ? response.code(204).send() : sendError(error, request, response, logOf(request))
    } catch (refused) {
      return sendError(refused, request, response, logOf(request))
    }
  }

  function addRoute(scope: FastifyInstance, name: RouteName): void {
    const route: Route = ROUTES[name]
    scope.route({
      method: route.method,
      url: route.path.replaceAll(/\{(\w+)\}/g, ':$1'),
      config: { name },
      ...(name === 'fsWrite' ? { bodyLimit: LIMITS.json_body_bytes.max } : {}),
      ...(isRaw(name) ? { bodyLimit: Number.MAX_SAFE_INTEGER } : {}),
      handler: (request, response) =>
        reply(api, name, handlers[name] as Handlers[RouteName], parseCall(route, request, response), response),
    })
  }

  function parseCall(route: Route, request: FastifyRequest, response: FastifyReply): Call<RouteName> {
    let log: Logger | undefined
    let signal: AbortSignal | undefined
    let gone: AbortSignal | undefined
    return {
      params: route.params?.parse(request.params),
      query: route.query?.parse(request.query),
      // A request without a body asks for the defaults.
      body: route.body?.parse(request.body ?? {}),
      headers: route.headers?.parse(request.headers),
      request,
      // Made when first asked for: most requests need none.
      get gone() {
        gone ??= closed(response)
        return gone
      },
      get signal() {
        signal ??= AbortSignal.any([api.context.closing, this.gone])
        return signal
      },
      get log() {
        log ??= logOf(request)
        return log
      },
    } as Call<RouteName>
  }
}

const isRaw = (name: RouteName) => (ROUTES[name] as Route).rawBody !== undefined

function isLoopback({ socket }: FastifyRequest): boolean {
  const address = socket.localAddress ?? ''
  return address.startsWith('127.') || address === '::1' || address.startsWith('::ffff:127.')
}

/** Of the reply and not of the request, which is also closed once its body was read, nor of the connection, which may carry many. */
function closed({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController()
  if (raw.destroyed) gone.abort()
  raw.once('close', () => gone.abort())
  return gone.signal
}

function parseJson(_request: FastifyRequest, text: string | Buffer, done: (error: Error | null, body?: unknown) => void): void {
  try {
    done(null, text.length === 0 ? undefined : JSON.parse(text.toString()))
  } catch (cause) {
    done(new SandglassError('INVALID_REQUEST', { issue: 'the body is not JSON' }, { cause }))
  }
}

function sendError(error: unknown, request: FastifyRequest, response: FastifyReply, log: Logger): FastifyReply {
  // Nobody is there to hear of it.
  if (request.socket.destroyed && error instanceof Error && (error.name === 'AbortError' || request.raw.errored === error)) {
    log.info('the client left before its answer')
    return response.code(CLIENT_GONE).send()
  }
  const failure = tooLarge(error, request) ?? toSandglassError(error, log)
  if (!request.raw.complete) lingeringly(request, response)
  return response.code(failure.httpStatus).send({ error: failure.toWire(request.id) })
}

/** What a daemon that stops gives up has not failed. */
function whileClosing(closing: AbortSignal, error: unknown, request: FastifyRequest): unknown {
  const isGivenUp = closing.aborted && error instanceof Error && error.name === 'AbortError'
  return isGivenUp ? stopping(request, error) : error
}

/**
 * A client that is still sending would see a broken connection instead of the reply if it were closed at once. What it sends is
 * thrown away for a while, so that it gets to reading.
 */
function lingeringly({ raw, socket }: FastifyRequest, response: FastifyReply): void {
  response.removeHeader('connection')
  raw.resume()
  const cut = setTimeout(() => socket.destroy(), LINGER_MS)
  raw.once('close', () => clearTimeout(cut))
}

function tooLarge(error: unknown, request: FastifyRequest): SandglassError | null {
  if ((error as { code?: string }).code !== 'FST_ERR_CTP_BODY_TOO_LARGE') return null
  return new SandglassError(
    'BODY_TOO_LARGE',
    { limit: request.routeOptions.bodyLimit ?? LIMITS.request_body_bytes.max },
    { cause: error },
  )
}
