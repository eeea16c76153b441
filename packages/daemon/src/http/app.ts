// The HTTP side of the daemon: app.ts adds every route of the contract and the hooks that all requests pass, handlers/ calls the verbs, requests/
// checks what comes in, streams/ writes what goes out.
import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { LIMITS, PATHS, ROUTES, type Route, type RouteName, SandglassError } from '@sandglass/contract'
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import type { WebSocket } from 'ws'
import type { Logger } from '../log.ts'
import { explainLoss } from '../sessions/lifecycle/explain-loss.ts'
import type { Api, Call, Handlers } from './api.ts'
import { sendError, sessionOf, whileClosing } from './errors.ts'
import { handlersOf } from './handlers.ts'
import { reply } from './reply.ts'
import { createAccessCheck } from './requests/access.ts'
import { watchBody } from './requests/body-deadline.ts'
import { LargeBodies } from './requests/large-bodies.ts'
import type { Upgrades } from './streams/upgrade.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by readyz: the same body, with 503. */
    notReady?: boolean
  }
  interface FastifyContextConfig {
    name?: RouteName
  }
}

export function createApp(api: Api, upgrades: Upgrades): FastifyInstance {
  const app = fastify({
    logger: false,
    genReqId: requestIds(),
    bodyLimit: LIMITS.request_body_bytes.max,
    // The longest are the reference of an image and the id of a context, with every byte escaped.
    routerOptions: { maxParamLength: Math.max(3 * LIMITS.image_reference.max, 12 * LIMITS.context_id.max) },
    frameworkErrors: (error, request, response) => refusePath(error, request, response as FastifyReply),
  })
  const checkAccess = createAccessCheck(api)
  const { httpSeconds } = api.context.metrics
  const logOf = (request: FastifyRequest) => api.context.log.child({ requestId: request.id })

  // SECURITY: the access check comes before the body is read, and also for paths that do not exist.
  app.addHook('onRequest', async (request, response) => {
    const { name } = request.routeOptions.config
    if (admit(request, response, name ? ROUTES[name] : null) === 'preflight') return response.code(204).send()
    const totalMs = name !== undefined && isRaw(name) ? null : LIMITS.json_body_seconds.max * 1000
    watchBody(request, response, { stallMs: api.context.config.slow_body_seconds * 1000, totalMs }, error =>
      response
        .header('connection', 'close')
        .code(error.httpStatus)
        .send({ error: error.toWire(request.id) }),
    )
  })
  const largeBodies = new LargeBodies()
  app.addHook('preParsing', (request, response, payload) => largeBodies.reserve(request, response, payload))
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
  const names = Object.keys(PATHS) as RouteName[]
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

  function admit(request: FastifyRequest, response: FastifyReply, route: Route | null) {
    return checkAccess(request, response, route, upgrades.has(request.raw))
  }

  /** Fastify runs no hooks for a path that it cannot decode, such as /%ff. */
  function refusePath(error: Error, request: FastifyRequest, response: FastifyReply): FastifyReply {
    try {
      if (admit(request, response, null) === 'preflight') return response.code(204).send()
      return sendError(error, request, response, logOf(request))
    } catch (refused) {
      return sendError(refused, request, response, logOf(request))
    }
  }

  function addRoute(scope: FastifyInstance, name: RouteName): void {
    const route: Route = ROUTES[name]
    const handler = handlers[name] as Handlers[RouteName]
    scope.route({
      method: route.method,
      url: route.path.replaceAll(/\{(\w+)\}/g, ':$1'),
      config: { name },
      ...(name === 'fsWrite' ? { bodyLimit: LIMITS.json_body_bytes.max } : {}),
      ...(isRaw(name) ? { bodyLimit: Number.MAX_SAFE_INTEGER } : {}),
      handler: (request, response) => {
        const call = parseCall(route, request, response)
        return route.kind === 'websocket' ? upgrade(handler, call, response) : reply(api, name, handler, call, response)
      },
    })
  }

  async function upgrade(handler: Handlers[RouteName], call: Call<RouteName>, response: FastifyReply): Promise<FastifyReply> {
    const run = (await (handler as (call: Call<RouteName>) => unknown)(call)) as (socket: WebSocket) => void
    response.hijack()
    upgrades.accept(call.request.raw, run)
    return response
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
      // Made at the first use: most requests need none of them.
      get gone() {
        gone ??= clientGone(response, route)
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

/** The id is in the reply, in errors and in every log line: the caller's own if it is well formed, else one of ours. */
function requestIds(): (request: IncomingMessage) => string {
  const start = randomBytes(6).toString('base64url')
  let count = 0
  return ({ headers }) => {
    const given = headers['x-request-id']
    return typeof given === 'string' && /^[A-Za-z0-9._:/-]{1,128}$/.test(given) ? given : `req-${start}-${(++count).toString(36)}`
  }
}

/**
 * Follows the reply: a request also closes once its body was read, and a connection carries many requests. The handler of a JSON reply has
 * ended when the reply is sent, so that nothing is left to abort.
 */
function clientGone({ raw }: FastifyReply, { kind }: Route): AbortSignal {
  const gone = new AbortController()
  if (raw.destroyed) gone.abort()
  raw.once('close', () => {
    if (kind !== 'json' || !raw.writableFinished) gone.abort()
  })
  return gone.signal
}

function parseJson(_request: FastifyRequest, text: string | Buffer, done: (error: Error | null, body?: unknown) => void): void {
  try {
    done(null, text.length === 0 ? undefined : JSON.parse(text.toString()))
  } catch (cause) {
    done(new SandglassError('INVALID_REQUEST', { issue: 'the body is not JSON' }, { cause }))
  }
}
