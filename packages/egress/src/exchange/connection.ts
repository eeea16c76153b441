// One connection that a program in a sandbox has opened: find out where it leads and what it speaks, and serve it.
import type { Duplex } from 'node:stream'
import { HOLD_REASONS } from '../held-requests.ts'
import { HttpError } from '../http/errors.ts'
import { type ServeOptions, serveHttp1 } from '../http/h1-server.ts'
import { serveHttp2 } from '../http/h2-server.ts'
import type { Exchange, RequestHead } from '../http/message.ts'
import { bracketed, type CompiledPolicy, decideConnection, decideRequest, normaliseHost } from '../policy/policy.ts'
import type { LiveSession } from '../sessions/session.ts'
import { MAX_HELLO_BYTES, type PeekedHello, peekClientHello } from '../tls/client-hello.ts'
import { terminateTls } from '../tls/terminate.ts'
import type { Announced } from '../tunnel/tunnel.ts'
import { tcpUrl } from './blocked.ts'
import type { ExchangeContext } from './context.ts'
import { inspectFirst } from './first-bytes.ts'
import { forwardRaw } from './raw.ts'
import { beginDecision } from './record.ts'
import { handleRequest } from './request.ts'
import { acceptSocks, readSocksTarget, refuseSocks } from './socks.ts'

const FIRST_BYTES_MS = 60_000

/** Where a connection leads. The host is null until the first bytes name it. */
interface Target {
  readonly host: string | null
  readonly port: number
}

/** Something that a connection carries, until it is disposed of. */
export interface Carried extends Disposable {
  /** Whether the policy of this moment allows it. */
  readonly isAllowed: boolean
}

/** Everything that serves one connection. */
export interface Serving {
  readonly context: ExchangeContext
  readonly session: LiveSession
  /** Registers what the connection carries, so that a change of the policy can end it. */
  carry(isAllowedBy: (policy: CompiledPolicy) => boolean): Carried
  /** The program sees a reset. */
  reset(): void
}

export async function handleConnection(context: ExchangeContext, session: LiveSession, announced: Announced): Promise<void> {
  const carried = new Set<(policy: CompiledPolicy) => boolean>()
  let stream: Duplex | undefined
  const reset = () => {
    session.tunnel.refuse(announced.number)
    stream?.destroy()
  }
  const leave = session.enter({
    isAllowedBy: policy => [...carried].every(check => check(policy)),
    cut: reset,
  })
  const serving: Serving = {
    context,
    session,
    carry(isAllowedBy) {
      carried.add(isAllowedBy)
      return { isAllowed: isAllowedBy(session.policy), [Symbol.dispose]: () => void carried.delete(isAllowedBy) }
    },
    reset,
  }
  try {
    stream = await session.tunnel.take(announced.number)
    stream.on('error', () => undefined) // a program that goes away; whoever reads the stream sees it
    await serve(serving, stream, announced)
  } catch (error) {
    if (!session.ended.aborted && !(error instanceof HttpError)) context.onError(error, `a connection of ${session.id}`)
    reset()
  } finally {
    leave()
  }
}

/** Logs why a connection is refused, and resets it. */
function refuse({ context, session, reset }: Serving, host: string, port: number, reason: string): void {
  beginDecision(context, session, { type: 'connection', method: 'CONNECT', url: tcpUrl(host, port), host, port }).log('blocked', {
    reason,
  })
  reset()
}

async function serve(serving: Serving, stream: Duplex, { via, name, port }: Announced): Promise<void> {
  if (via === 'socks') return await serveSocks(serving, stream)
  if (via === 'http_proxy') return await servePlain(serving, stream, { host: null, port: 80 }, true)
  if (via === 'refused') return await serveWeb(serving, stream, { host: null, port })
  const host = normaliseHost(name)
  if (host === null) return refuse(serving, name, port, 'the name is not valid')
  await serveTarget(serving, stream, { host, port })
}

async function serveSocks(serving: Serving, stream: Duplex): Promise<void> {
  const target = await readSocksTarget(stream)
  if (target === null) return
  const host = normaliseHost(target.host)
  if (host === null || target.port === 0) {
    refuseSocks(stream)
    return refuse(serving, target.host, target.port, 'the name or port is not valid')
  }
  acceptSocks(stream)
  await serveTarget(serving, stream, { host, port: target.port })
}

/** A connection whose host is known before its first byte. */
export async function serveTarget(serving: Serving, stream: Duplex, target: Target & { host: string }): Promise<void> {
  const { context, session } = serving
  const { host, port } = target
  const decision = decideConnection(session.policy, target)
  if (decision.kind === 'tcp') return await forwardRaw(serving, stream, target, { rule: decision.rule, tags: tagsOf(decision) })
  if (decision.kind === 'http' || decision.kind === 'pass_through') return await serveWeb(serving, stream, target)
  if (decision.kind === 'refused') return refuse(serving, host, port, decision.reason)
  const asked = { sessionId: session.id, sessionName: session.settings.name, method: null, url: tcpUrl(host, port), host, port }
  const held = await context.held.hold(asked, AbortSignal.any([session.ended, closeSignal(stream)]))
  if (held !== 'allowed') return refuse(serving, host, port, `${decision.reason}, and ${HOLD_REASONS[held]}`)
  await forwardRaw(serving, stream, target, { rule: 'approved by a person', tags: ['approved'] })
}

const tagsOf = ({ kind, outcome }: { kind: 'tcp' | 'pass_through'; outcome: 'allowed' | 'observed' }) => [
  ...(kind === 'pass_through' ? (['pass_through'] as const) : []),
  ...(outcome === 'observed' ? (['observed'] as const) : []),
]

/** Aborts when the program closes its connection. */
function closeSignal(stream: Duplex): AbortSignal {
  const closed = new AbortController()
  stream.once('close', () => closed.abort())
  stream.once('end', () => closed.abort())
  stream.read(0)
  return closed.signal
}

/** HTTP or TLS: the first bytes tell. */
async function serveWeb(serving: Serving, stream: Duplex, target: Target): Promise<void> {
  const hello = await inspectFirst(stream, {
    inspect: bytes => {
      const found = peekClientHello(bytes)
      return found.kind === 'incomplete' ? undefined : found
    },
    maxBytes: MAX_HELLO_BYTES,
    timeoutMs: FIRST_BYTES_MS,
  })
  if (hello === null)
    return refuse(
      serving,
      target.host ?? 'unknown',
      target.port,
      'the program sent neither HTTP nor TLS; other protocols need a tcp rule',
    )
  if (hello.kind === 'not-tls') return await servePlain(serving, stream, target, false)
  await serveTls(serving, stream, target, hello)
}

/** `isProxy`: the requests name their hosts themselves, and CONNECT opens a connection to one. */
async function servePlain(serving: Serving, stream: Duplex, { host, port }: Target, isProxy: boolean): Promise<void> {
  const origin = { scheme: 'http', port, host, isProxy, normaliseHost } as const
  const onRefused: ServeOptions['onRefused'] = (error, line) => refuseUnread(serving, host, port, error, line)
  await serveHttp1(stream, { origin, onRefused }, exchange =>
    exchange.head.method === 'CONNECT' && isProxy ? connect(serving, exchange) : request(serving, exchange),
  )
}

async function connect(serving: Serving, exchange: Exchange): Promise<void> {
  const { host, port } = exchange.head
  const tunnel = exchange.upgrade({ status: 200, headers: [] })
  await serveTarget(serving, tunnel, { host, port })
}

async function serveTls(serving: Serving, stream: Duplex, target: Target, hello: PeekedHello & { kind: 'hello' }): Promise<void> {
  const { context, session } = serving
  const { port } = target
  const named = hello.serverName === null ? null : normaliseHost(hello.serverName)
  const host = target.host ?? named
  // SECURITY: the name in TLS must be the one that was dialled, or a request for an allowed host could be answered by another.
  if (host === null) return refuse(serving, 'unknown', port, 'the TLS connection names no host')
  if (hello.serverName !== null && named !== host)
    return refuse(serving, host, port, `the TLS connection names another host than ${host}`)
  const decision = decideConnection(session.policy, { host, port })
  if (decision.kind === 'tcp' || decision.kind === 'refused') return await serveTarget(serving, stream, { host, port })
  if (decision.kind === 'pass_through') {
    // SECURITY: without a name in TLS nothing ties the connection to the host that the policy allows.
    if (named === null) return refuse(serving, host, port, 'the TLS connection names no host')
    return await forwardRaw(serving, stream, { host, port }, { rule: decision.rule, tags: tagsOf(decision) })
  }
  const certificate = await context.leaves.contextFor(authorityOf(serving), host)
  const alpn = hello.alpn.includes('h2') ? ['h2', 'http/1.1'] : ['http/1.1']
  const secure = await terminateTls(stream, certificate, { alpn }).catch((error: Error) => error)
  if (secure instanceof Error) {
    const log = beginDecision(context, session, {
      type: 'connection',
      method: 'CONNECT',
      url: `https://${host}:${port}`,
      host,
      port,
    })
    return log.log('error', { reason: `${secure.message}; the program may not trust the certificate authority of the sandbox` })
  }
  const origin = { scheme: 'https', port, host, isProxy: false, normaliseHost } as const
  const onRefused: ServeOptions['onRefused'] = (error, line) => refuseUnread(serving, host, port, error, line)
  const serveHttp = secure.alpnProtocol === 'h2' ? serveHttp2 : serveHttp1
  await serveHttp(secure, { origin, onRefused }, exchange => request(serving, exchange))
}

/** SECURITY: a session gets certificates of the authority that it trusts, and of no other. */
function authorityOf({ context, session }: Serving) {
  const found = context.settings().authorities.find(({ fingerprint }) => fingerprint === session.settings.ca)
  if (found === undefined) throw new Error('the certificate authority of the session is missing')
  return found
}

const request = (serving: Serving, exchange: Exchange) =>
  handleRequest(serving.context, serving.session, exchange, (head, isApproved) =>
    serving.carry(policy => isStillAllowed(policy, head, isApproved)),
  )

/** What a person has approved stays until a rule or an answer refuses it. The operations of a GraphQL request were checked once. */
function isStillAllowed(policy: CompiledPolicy, head: RequestHead, isApproved: boolean): boolean {
  const decision = decideRequest(policy, head)
  return decision.allowed || decision.needsGraphql === true || (isApproved && decision.outcome === 'ask')
}

/** A request that could not be read is refused before it becomes an exchange: this is its entry in the log. */
function refuseUnread(
  { context, session }: Serving,
  host: string | null,
  port: number,
  error: HttpError,
  line: { readonly method: string; readonly target: string } | null,
): void {
  const shown = host ?? 'unknown'
  const url = `${bracketed(shown)}:${port}${line?.target ?? ''}`
  beginDecision(context, session, { type: 'request', method: line?.method ?? null, url, host: shown, port }).log('blocked', {
    status: error.status,
    reason: error.message,
  })
}
