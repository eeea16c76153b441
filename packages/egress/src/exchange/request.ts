// One HTTP request of a sandbox: policy, approval, address, server certificate, secrets, the request itself, the reply, the log. In this order.
import { Duplex, pipeline } from 'node:stream'
import { HOLD_REASONS, type HoldOutcome } from '../held-requests.ts'
import { HttpError } from '../http/errors.ts'
import {
  type Body,
  type Exchange,
  type HeaderList,
  type OutgoingBody,
  type RequestHead,
  type ResponseHead,
  valuesOf,
  without,
} from '../http/message.ts'
import { splice } from '../http/splice.ts'
import type { Reply } from '../http/upstream/connection.ts'
import type { DialTarget } from '../http/upstream/dial.ts'
import { type Decision, decideRequest, readGraphql } from '../policy/policy.ts'
import { resignAws } from '../secrets/aws/resign.ts'
import { maskRequest } from '../secrets/mask.ts'
import { type Redactor, redactorOf } from '../secrets/redact.ts'
import { replyHeadersAfterRedaction, requestHeadersForRedaction } from '../secrets/redaction-headers.ts'
import { replaceInBody } from '../secrets/replace/replace.ts'
import type { SessionSecret } from '../session.ts'
import type { LiveSession } from '../sessions/session.ts'
import { replyBlocked, replyFailed, urlOf } from './blocked.ts'
import type { Carried } from './connection.ts'
import type { ExchangeContext } from './context.ts'
import { addRedacted, beginDecision, type Decision as DecisionLog } from './record.ts'
import { findRoute } from './route.ts'

/** A body that has to be read before it can be decided about. */
const MAX_GRAPHQL_BYTES = 1024 * 1024

/** Called while the request is under way, so that a change of the policy can end it. */
export type OnUnderWay = (request: RequestHead, isApproved: boolean) => Carried

export async function handleRequest(
  context: ExchangeContext,
  session: LiveSession,
  exchange: Exchange,
  onUnderWay: OnUnderWay,
): Promise<void> {
  const { head } = exchange
  const { host, port, method } = head
  const log = beginDecision(context, session, { type: 'request', method, url: urlOf(head), host, port })
  try {
    const { decision, body } = await decide(session, exchange)
    log.note({ rule: decision.rule })
    const held = decision.outcome === 'ask' ? await hold(context, session, exchange) : null
    const isApproved = held === 'allowed'
    if (!decision.allowed && !isApproved) {
      const why = held === null ? decision.reason : `${decision.reason}, and ${HOLD_REASONS[held]}`
      return await block(exchange, log, session, why)
    }
    if (isApproved) log.note({ tags: ['approved'] })
    else if (decision.outcome === 'observed') log.note({ tags: ['observed'], reason: decision.reason })
    const route = await findRoute(context, session, host, port)
    using _ = await session.requests.acquire(exchange.signal)
    if ('refused' in route) return await refuseRoute(exchange, log, session, route)
    // SECURITY: the policy may have changed while a person or the name server was asked.
    using underWay = onUnderWay(head, isApproved)
    if (!underWay.isAllowed) return await block(exchange, log, session, 'the policy has changed')
    await forward(context, session, exchange, body, route, log)
  } catch (error) {
    await fail(context, session, exchange, log, error)
  } finally {
    // Whatever went another way than expected is logged too: one entry for every request.
    log.log('error', { reason: 'the connection ended early', ...bytesOf(exchange) })
  }
}

async function decide(session: LiveSession, exchange: Exchange): Promise<{ decision: Decision; body: OutgoingBody }> {
  const { head, body } = exchange
  const decideAll = (graphql?: ReturnType<typeof readGraphql>) =>
    strictest(
      readingsOf(head).map(reading => decideRequest(session.policy, { ...head, ...reading, ...(graphql && { graphql }) })),
    )
  const decision = decideAll()
  if (!decision.needsGraphql) return { decision, body }
  using _ = await session.buffered.acquire(exchange.signal)
  const content = await collect(body)
  const graphql = content === null ? 'unreadable' : readGraphql({ ...head, body: content })
  return { decision: decideAll(graphql), body: content ?? body }
}

/** SECURITY: many servers treat a request as if it had the method or the path in one of these headers, written with - or _. */
const METHOD_HEADERS = ['x-http-method-override', 'x-http-method', 'x-method-override']
const PATH_HEADERS = ['x-original-url', 'x-rewrite-url']

/** The request in each form that a server may see in it. */
function readingsOf({ method, target, headers }: RequestHead): { method: string; target: string }[] {
  const found = (names: readonly string[]) =>
    headers.filter(([name]) => names.includes(name.toLowerCase().replaceAll('_', '-'))).map(([, value]) => value.trim())
  const methods = [method, ...found(METHOD_HEADERS).map(value => value.toUpperCase())]
  return [target, ...found(PATH_HEADERS)].flatMap(path => methods.map(each => ({ method: each, target: path })))
}

/** A refusal before a decision that depends on the body, and that before everything else. */
function strictest(decisions: readonly Decision[]): Decision {
  const found =
    decisions.find(({ allowed, needsGraphql }) => !allowed && !needsGraphql) ??
    decisions.find(({ allowed }) => !allowed) ??
    decisions[0]
  if (found === undefined) throw new Error('a request has at least one method')
  return found
}

/** Null for a body that is too large. */
async function collect(body: Body): Promise<Buffer | null> {
  const parts: Buffer[] = []
  let length = 0
  for await (const chunk of body ?? []) {
    parts.push(chunk as Buffer)
    length += (chunk as Buffer).length
    if (length > MAX_GRAPHQL_BYTES) return null
  }
  return Buffer.concat(parts)
}

function hold(context: ExchangeContext, session: LiveSession, { head, signal }: Exchange): Promise<HoldOutcome> {
  const { host, port, method } = head
  const asked = { sessionId: session.id, sessionName: session.settings.name, method, url: urlOf(head, false), host, port }
  return context.held.hold(asked, AbortSignal.any([signal, session.ended]))
}

async function block(exchange: Exchange, log: DecisionLog, session: LiveSession, reason: string): Promise<void> {
  log.log('blocked', { status: 403, reason })
  await replyBlocked(exchange, reason, session.settings)
}

async function refuseRoute(
  exchange: Exchange,
  log: DecisionLog,
  session: LiveSession,
  { refused, isFailure }: { refused: string; isFailure: boolean },
): Promise<void> {
  if (!isFailure) {
    return await block(exchange, log, session, refused)
  }
  log.log('error', { status: 502, reason: refused })
  await replyFailed(exchange, 502, `${exchange.head.host}: ${refused}`)
}

async function forward(
  context: ExchangeContext,
  session: LiveSession,
  exchange: Exchange,
  body: OutgoingBody,
  route: DialTarget,
  log: DecisionLog,
): Promise<void> {
  const { head, signal } = exchange
  const secrets = session.secretsFor(head.host)
  const redactor = secrets.length === 0 ? null : redactorOf(secrets)
  // SECURITY: the certificate of the server is verified before a secret is put into the request.
  const upstream = await context.upstreams.acquire(
    {
      ...route,
      sessionId: session.id,
      secretSet: secrets.map(({ name }) => name).join(' '),
      scheme: head.scheme,
      prefersHttp2: head.version === '2',
    },
    signal,
  )
  const wanted = redactor === null ? head : { ...head, headers: requestHeadersForRedaction(secrets, head.headers) }
  const masked = maskRequest(secrets, wanted)
  for (const name of masked.stripped)
    addRedacted(session, {
      type: 'stripped',
      method: head.method,
      url: urlOf(head, false),
      host: head.host,
      port: head.port,
      reason: name,
    })
  if (masked.refused !== null) {
    upstream.release()
    throw new HttpError('unsupported', masked.refused)
  }
  using _ = await bufferPlace(session, secrets, masked.head, signal)
  const signed = await resignAws(secrets, masked.head, insertInBody(body, masked.bodySecrets))
  if (signed.refused !== null) {
    upstream.release()
    throw new HttpError('unsupported', signed.refused)
  }
  log.note({ masked: masked.masked + signed.masked })
  const outgoing = masked.bodyChangesLength
    ? { ...signed.head, headers: without(signed.head.headers, 'content-length') }
    : signed.head
  const reply = await upstream.send({
    head: outgoing,
    body: signed.body,
    trailers: () => withoutCredentials(exchange.trailers()),
    signal,
  })
  await answer(exchange, reply, redactor, log)
}

/** A body that AWS requires a hash of, and that has none yet, is held in memory. */
async function bufferPlace(
  session: LiveSession,
  secrets: readonly SessionSecret[],
  { headers }: RequestHead,
  signal: AbortSignal,
): Promise<Disposable | null> {
  const isBuffered = secrets.some(({ kind }) => kind === 'aws') && valuesOf(headers, 'x-amz-content-sha256').length === 0
  return isBuffered ? await session.buffered.acquire(signal) : null
}

/** SECURITY: a credential in a trailer would pass by all checks of headers. */
const CREDENTIALS = ['authorization', 'proxy-authorization', 'cookie']
const withoutCredentials = (trailers: HeaderList): HeaderList =>
  trailers.filter(([name]) => !CREDENTIALS.includes(name.toLowerCase()))

const insertInBody = (body: OutgoingBody, replacements: Parameters<typeof replaceInBody>[0]): OutgoingBody => {
  if (body === null || replacements.length === 0) return body
  const inserting = replaceInBody(replacements)
  if (body instanceof Uint8Array) {
    inserting.end(body)
    return inserting
  }
  return pipeline(body, inserting, () => undefined) // the reader of the result sees the error
}

async function answer(exchange: Exchange, reply: Reply, redactor: Redactor | null, log: DecisionLog): Promise<void> {
  const { status } = reply.head
  log.note({ status })
  if (reply.tunnel !== null) return await tunnel(exchange, reply.head, reply.tunnel, redactor, log)
  if (redactor === null) await exchange.respond(reply.head, reply.body, reply.trailers)
  else await respondRedacted(exchange, reply, redactor)
  log.log('allowed', { status, ...bytesOf(exchange) })
}

async function tunnel(
  exchange: Exchange,
  head: ResponseHead,
  server: Duplex,
  redactor: Redactor | null,
  log: DecisionLog,
): Promise<void> {
  const client = exchange.upgrade({ ...head, headers: redactor?.redactHeaders(head.headers) ?? head.headers })
  const clean =
    redactor === null ? server : Duplex.from({ readable: pipeline(server, redactor.tunnel(), () => undefined), writable: server }) // splice sees the error
  const { bytesToServer, bytesToClient } = await splice(client, clean)
  log.log('allowed', { status: head.status, bytes_sent: bytesToServer, bytes_received: bytesToClient })
}

async function respondRedacted(exchange: Exchange, reply: Reply, redactor: Redactor): Promise<void> {
  const trailers = () => redactor.redactHeaders(reply.trailers())
  if (reply.body === null) {
    await exchange.respond({ ...reply.head, headers: redactor.redactHeaders(reply.head.headers) }, null, trailers)
    return
  }
  const encodings = valuesOf(reply.head.headers, 'content-encoding')
  const redacted = redactor.body(encodings.length === 0 ? null : encodings.join(', '))
  if ('refused' in redacted) {
    reply.body.destroy()
    throw new HttpError('upstream_malformed', redacted.refused)
  }
  const headers = replyHeadersAfterRedaction(redactor, reply.head.headers)
  const body = pipeline(reply.body, redacted.transform, () => undefined) // `respond` reads the result and sees the error
  await exchange.respond({ ...reply.head, headers }, body, trailers)
}

async function fail(
  context: ExchangeContext,
  session: LiveSession,
  exchange: Exchange,
  log: DecisionLog,
  error: unknown,
): Promise<void> {
  if (!(error instanceof HttpError) && !exchange.signal.aborted) context.onError(error, 'a request')
  const failure = error instanceof HttpError ? error : new HttpError('unreachable', 'the request failed', { cause: error })
  log.log('error', { status: failure.status, reason: failure.message, ...bytesOf(exchange) })
  // After the head of a reply was sent, the connection is cut: the client must not take a part for the whole.
  // SECURITY: the message may quote what the server sent.
  const message = redactorOf(session.settings.secrets)?.redactText(failure.message) ?? failure.message
  await replyFailed(exchange, failure.status, message).catch(() => undefined) // the client is gone, or has a part of the reply
}

const bytesOf = ({ bytesReceived, bytesSent }: Exchange) => ({ bytes_sent: bytesReceived, bytes_received: bytesSent })
