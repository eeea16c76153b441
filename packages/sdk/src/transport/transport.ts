// Sends requests: paths from the contract, JSON with converted names, errors, and retries of requests that are safe to repeat.
import { PATHS, type RouteName, SandglassError } from '@sandglass/contract/tables'
import type { ForwardLike } from '../session/forward.ts'
import type { Body, Query, Reply } from '../wire-types.ts'
import { type BodySource, webBody } from './body.ts'
import { toCamel, toSnake } from './case.ts'
import { decodeError, isTransient, unreachable, withWrittenNames } from './errors.ts'
import type { SocketConstructor } from './socket.ts'
import { withResolvers } from './with-resolvers.ts'

/** The part of fetch that is used. node/fetch.ts has a faster one that also works over unix sockets. */
export type FetchLike = (url: string, init: FetchInit) => Promise<ResponseLike>
export type FetchInit = {
  method: string
  headers: Record<string, string>
  body?: BodySource
  signal?: AbortSignal
  duplex?: 'half'
  /** The call does not keep the program running. The global fetch ignores it. */
  background?: boolean
}
export type ResponseLike = {
  readonly status: number
  readonly ok: boolean
  readonly headers: { get(name: string): string | null }
  readonly body: ReadableStream<Uint8Array> | null
  text(): Promise<string>
}

export type ClientOptions = {
  /** Where the daemon listens, like http://127.0.0.1:8080. */
  baseUrl: string
  /** The address in errors; baseUrl when absent. */
  address?: string
  /** The key, or a function that returns it. The function runs before each call, with the signal of the call. */
  apiKey: string | ((signal?: AbortSignal) => string | Promise<string>)
  /** A SandglassError that it throws fails the call. Any other error counts as a lost connection, after which the call may be repeated. */
  fetch?: FetchLike
  WebSocket?: SocketConstructor
  /** Listens on this machine for `session.forward`; the client of `@sandglass/sdk/node` has one. */
  forward?: ForwardLike
  /** How often a lost read or create is repeated; 2 when absent. */
  retries?: number
}

export type CallOptions<Name extends RouteName> = {
  params?: Record<string, string | number>
  query?: Query<Name>
  body?: Body<Name>
  raw?: BodySource
  headers?: Record<string, string>
  signal?: AbortSignal
  /** Makes a POST safe to repeat: the daemon answers a repeated key with the first result. */
  idempotencyKey?: string
  /** See FetchInit. */
  background?: boolean
}

export type Transport = {
  readonly options: Required<Pick<ClientOptions, 'baseUrl' | 'address' | 'retries'>> &
    Pick<ClientOptions, 'WebSocket' | 'forward'>
  key(signal?: AbortSignal): Promise<string>
  /** One JSON reply. */
  json<Name extends RouteName>(name: Name, options?: CallOptions<Name>): Promise<Reply<Name>>
  /** The response, after its status was checked. */
  open<Name extends RouteName>(name: Name, options?: CallOptions<Name>): Promise<ResponseLike>
}

export function createTransport(given: ClientOptions): Transport {
  const baseUrl = given.baseUrl.replace(/\/+$/, '')
  const options = { ...given, baseUrl, address: given.address ?? baseUrl, retries: given.retries ?? 2 }
  const send: FetchLike = given.fetch ?? ((url, init) => fetch(url, { ...init, body: webBody(init.body) }))
  const key = async (signal?: AbortSignal) => (typeof given.apiKey === 'string' ? given.apiKey : await given.apiKey(signal))
  const line: Line = { send, key, options }
  const open = <Name extends RouteName>(name: Name, call: CallOptions<Name> = {}) => openWithRetries(line, name, call)
  return {
    options,
    key,
    open,
    async json(name, call) {
      const response = await open(name, call)
      const text = await response.text().catch(error => {
        call?.signal?.throwIfAborted()
        throw unreachable(options.address, error)
      })
      return toCamel(JSON.parse(text)) as Reply<typeof name>
    },
  }
}

/** Path and query of a call. */
export function routeUrl(name: RouteName, params: CallOptions<RouteName>['params'] = {}, query: object = {}): string {
  const path = PATHS[name].path.replace(/\{(\w+)\}/g, (_, key: string) => pathSegment(String(params[key])))
  const search = new URLSearchParams()
  for (const [key, value] of Object.entries(toSnake(query) as Record<string, unknown>)) {
    if (value !== undefined) search.set(key, String(value))
  }
  return search.size > 0 ? `${path}?${search}` : path
}

/** SECURITY: a URL drops the segments `.` and `..`, written in any way, so that the request would go to another path. */
function pathSegment(text: string): string {
  if (text === '.' || text === '..' || /\p{Cs}/u.test(text))
    throw new SandglassError('INVALID_REQUEST', { issue: `${JSON.stringify(text)} cannot be part of an address` })
  return encodeURIComponent(text)
}

/** 128 random bits. crypto.randomUUID is absent in a page that came over plain HTTP from another machine. */
export function newIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), byte => byte.toString(16).padStart(2, '0')).join('')
}

/** Waits before the `attempt`-th retry, with jitter so that many clients do not retry at the same time. */
export function backoff(
  attempt: number,
  { signal, background }: Pick<CallOptions<RouteName>, 'signal' | 'background'>,
): Promise<void> {
  signal?.throwIfAborted()
  const { promise, resolve, reject } = withResolvers<void>()
  const timer = setTimeout(resolve, Math.min(5000, 50 * 2 ** attempt) * (0.5 + Math.random() / 2))
  if (background && typeof timer === 'object') timer.unref() // a number in browsers
  const abort = () => reject(signal?.reason)
  signal?.addEventListener('abort', abort, { once: true })
  return promise.finally(() => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
  })
}

type Line = { send: FetchLike } & Pick<Transport, 'key' | 'options'>

async function openWithRetries<Name extends RouteName>(line: Line, name: Name, call: CallOptions<Name>): Promise<ResponseLike> {
  const isSafe = PATHS[name].method === 'GET' || call.idempotencyKey !== undefined
  const retries = isSafe ? line.options.retries : 0
  for (let attempt = 0; ; attempt++) {
    try {
      return await openOnce(line, name, call)
    } catch (error) {
      if (!(error instanceof Retryable)) throw error
      if (attempt >= retries) throw error.failure
    }
    await backoff(attempt, call)
  }
}

/** Wraps a lost connection, or the refusal of a stopping daemon: the same request may be sent again. */
class Retryable extends Error {
  readonly failure: SandglassError

  constructor(failure: SandglassError) {
    super(failure.message)
    this.failure = failure
  }
}

async function openOnce<Name extends RouteName>(
  { send, key, options }: Line,
  name: Name,
  call: CallOptions<Name>,
): Promise<ResponseLike> {
  call.signal?.throwIfAborted()
  const init = initOf(name, call, await key(call.signal))
  const response = await send(options.baseUrl + routeUrl(name, call.params, call.query), init).catch(error => {
    call.signal?.throwIfAborted()
    throw ownError(error) ?? new Retryable(unreachable(options.address, error))
  })
  if (response.ok) return response
  const refusal = await decodeError(response)
  throw isTransient(refusal) ? new Retryable(refusal) : withWrittenNames(refusal, call.body)
}

function initOf<Name extends RouteName>(name: Name, call: CallOptions<Name>, key: string): FetchInit {
  const init: FetchInit = { method: PATHS[name].method, headers: { authorization: `Bearer ${key}`, ...call.headers } }
  if (call.signal) init.signal = call.signal
  if (call.background) init.background = true
  if (call.idempotencyKey) init.headers['idempotency-key'] = call.idempotencyKey
  if (call.raw !== undefined) {
    init.body = call.raw
    init.duplex = 'half'
  } else if (call.body !== undefined) {
    init.headers['content-type'] = 'application/json'
    init.body = JSON.stringify(toSnake(call.body))
  }
  return init
}

/** The error of the body or of the given fetch, which the global fetch wraps; undefined for a failed connection. */
function ownError(error: unknown): SandglassError | undefined {
  const cause = error instanceof Error ? error.cause : undefined
  return [cause, error].find(candidate => candidate instanceof SandglassError)
}
