// The engine that the configuration names, spoken to through dockerode, which is loaded with the first call: most daemons never make one.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import { withDeadlines } from './deadlines.ts'

export interface EngineOptions {
  /** unix:///path, tcp://host:port (TLS) or http://host:port (none, loopback alone). */
  readonly endpoint: string
  readonly tlsCa?: string | undefined
  readonly tlsCert?: string | undefined
  readonly tlsKey?: string | undefined
}

/** Codes of a connection that was there: the engine was killed, or restarted. */
const BROKEN_OFF = ['EPIPE', 'ECONNRESET']
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
    // SECURITY: whoever can speak to an engine is root on its machine, so that an open port is for this machine alone.
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

/** What an engine's error says, without the HTTP around it. */
export function engineSays(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (isSilence(error)) return error.detail.why
  const { json, code = '' } = error as { json?: { message?: unknown }; code?: unknown }
  if (BROKEN_OFF.includes(String(code))) return `the engine broke off in the middle of a call (${error.message})`
  return typeof json?.message === 'string' ? json.message : error.message
}

/** It took a call and did not answer in time. */
export const isSilence = (error: unknown): error is SandglassError<'BACKEND_UNAVAILABLE'> =>
  error instanceof SandglassError && error.is('BACKEND_UNAVAILABLE')

/** An engine that does not answer in the middle of a start is no refusal: what there is of the machine may be there still. */
export function startFailed(id: string, error: unknown): SandglassError {
  if (error instanceof SandglassError && !isSilence(error)) return error
  return new SandglassError('START_FAILED', { id, why: engineSays(error) }, { cause: error })
}

/** The HTTP status of an engine's answer, or null when it gave none. */
export function statusOf(error: unknown): number | null {
  const { statusCode } = error as { statusCode?: unknown }
  return typeof statusCode === 'number' ? statusCode : null
}

/** The answer, or null where the engine has no such thing. */
export async function orNull<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked
  } catch (error) {
    if (statusOf(error) === 404) return null
    throw error
  }
}

/** Does what may have been done already: by an earlier attempt, or by somebody else. */
export async function settled(asked: Promise<unknown>, ...alright: readonly number[]): Promise<void> {
  try {
    await asked
  } catch (error) {
    if (!alright.includes(statusOf(error) ?? 0)) throw error
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

/** `parse` throws for what is none: a connection would fail with words that name no file. */
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
