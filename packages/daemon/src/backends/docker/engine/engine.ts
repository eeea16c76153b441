// The connection to a Docker engine, through dockerode. dockerode is loaded by the first call, because most daemons never make one.
// An engine that hangs accepts a call and never answers, so every call has a deadline, except those that carry a stream.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'

export interface EngineOptions {
  /** unix:///path, tcp://host:port (with TLS) or http://host:port (without TLS, only on the loopback interface). */
  readonly endpoint: string
  readonly tlsCa?: string | undefined
  readonly tlsCert?: string | undefined
  readonly tlsKey?: string | undefined
}

/** Error codes of an established connection: the engine was killed or restarted. */
const DISCONNECTED = ['EPIPE', 'ECONNRESET']
/** Deadline of a call that reads, and of the beginning of an attached stream. */
const READ_MS = 10_000
/** Deadline of a call that changes something: a busy engine is slow to start or remove a container. */
const WRITE_MS = 60_000
const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]']

export async function openEngine(options: EngineOptions): Promise<Docker> {
  return withDeadlines(await clientOf(options), options.endpoint)
}

async function clientOf(options: EngineOptions): Promise<Docker> {
  const { default: Client } = await import('dockerode')
  const unix = options.endpoint.match(/^unix:\/\/(\/.+)$/)?.[1]
  if (unix !== undefined) return new Client({ socketPath: unix })
  const url = parse(options.endpoint)
  if (url.protocol === 'http:') {
    // SECURITY: a client of an engine is root on the engine's machine, so a connection without TLS must not leave this machine.
    if (!LOOPBACK.includes(url.hostname))
      throw refused(`${options.endpoint} is not this machine, and without TLS anybody could answer`)
    return new Client({ protocol: 'http', host: url.hostname, port: Number(url.port || 2375) })
  }
  const { tlsCa, tlsCert, tlsKey } = options
  if (tlsCa === undefined || tlsCert === undefined || tlsKey === undefined)
    throw refused(`${options.endpoint} needs tls_ca, tls_cert and tls_key`)
  const [ca, cert, key] = await Promise.all([
    readPem(tlsCa, pem => new X509Certificate(pem)),
    readPem(tlsCert, pem => new X509Certificate(pem)),
    readPem(tlsKey, createPrivateKey),
  ])
  if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) throw refused(`${tlsKey} is not the key of ${tlsCert}`)
  return new Client({ protocol: 'https', host: url.hostname, port: Number(url.port || 2376), ca, cert, key })
}

type Dial = Docker['modem']['dial']
type Call = Parameters<Dial>[0]

function withDeadlines(engine: Docker, endpoint: string): Docker {
  const { modem } = engine
  const dial: Dial = modem.dial.bind(modem)
  modem.dial = (call, callback) => {
    const ms = deadlineOf(call)
    if (ms === null) return dial(call, callback)
    const abort = new AbortController()
    const timer = setTimeout(() => abort.abort(), ms)
    dial({ ...call, abortSignal: abort.signal }, (error, answer) => {
      clearTimeout(timer)
      callback?.(abort.signal.aborted ? noAnswer(endpoint) : error, answer)
    })
  }
  return engine
}

function deadlineOf({ method, isStream, hijack, file }: Call): number | null {
  if (hijack) return READ_MS
  if (isStream || file) return null
  return method === 'GET' ? READ_MS : WRITE_MS
}

const noAnswer = (endpoint: string) =>
  new SandglassError('BACKEND_UNAVAILABLE', { backend: 'docker', why: `the Docker engine at ${endpoint} does not answer` })

/** The message of an engine's error, without the HTTP around it. */
export function engineMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (isNoAnswer(error)) return error.detail.why
  const { json, code = '' } = error as { json?: { message?: unknown }; code?: unknown }
  if (DISCONNECTED.includes(String(code))) return `the engine closed the connection during a call (${error.message})`
  return typeof json?.message === 'string' ? json.message : error.message
}

/** True when a call missed its deadline. */
export const isNoAnswer = (error: unknown): error is SandglassError<'BACKEND_UNAVAILABLE'> =>
  error instanceof SandglassError && error.is('BACKEND_UNAVAILABLE')

/** The error of a failed start. An engine that stops answering during a start may have a part of the machine, so that is START_FAILED, too. */
export function startFailed(id: string, error: unknown): SandglassError {
  if (error instanceof SandglassError && !isNoAnswer(error)) return error
  return new SandglassError('START_FAILED', { id, why: engineMessage(error) }, { cause: error })
}

/** The HTTP status of an engine's answer, or null when it gave none. */
export function statusOf(error: unknown): number | null {
  const { statusCode } = error as { statusCode?: unknown }
  return typeof statusCode === 'number' ? statusCode : null
}

/** The answer, or null for status 404. */
export async function nullIfNotFound<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call
  } catch (error) {
    if (statusOf(error) === 404) return null
    throw error
  }
}

/** Waits for a call and ignores these HTTP statuses, such as 404 of a removal that somebody else has done already. */
export async function ignoreStatus(call: Promise<unknown>, ...ignored: readonly number[]): Promise<void> {
  try {
    await call
  } catch (error) {
    if (!ignored.includes(statusOf(error) ?? 0)) throw error
  }
}

function parse(endpoint: string): URL {
  try {
    const url = new URL(endpoint)
    if (['tcp:', 'https:', 'http:'].includes(url.protocol)) return url
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
  }
  throw refused(`${endpoint} is neither unix:///path nor tcp://host:port`)
}

/** `parse` throws for an invalid file. Without it the connection would fail with a message that names no file. */
async function readPem(path: string, parse: (pem: string) => unknown): Promise<string> {
  try {
    const pem = await readFile(path, 'utf8')
    parse(pem)
    return pem
  } catch (error) {
    throw refused(`${path} cannot be ${'syscall' in (error as Error) ? 'read' : 'used'}: ${(error as Error).message}`)
  }
}

const refused = (issue: string) => new SandglassError('CONFIG_INVALID', { source: 'backends.docker', issue })
