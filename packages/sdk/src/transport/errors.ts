// Errors as a caller sees them: rebuilt from replies, or made for a connection that failed.

import { SandglassError, type WireError } from '@sandglass/contract/tables'
import { camelName, snakeName } from './case.ts'
import type { ResponseLike } from './transport.ts'

/** The error in the reply of the daemon. */
export async function decodeError(response: ResponseLike): Promise<SandglassError> {
  const text = await response.text()
  const wire = wireError(text)
  if (wire) return SandglassError.fromWire(wire)
  const message = `HTTP ${response.status} without a Sandglass error: ${text.slice(0, 200)}`
  return new SandglassError('INTERNAL', { message }, { requestId: response.headers.get('x-request-id') ?? undefined })
}

/** Reads `{"error": {...}}`, or the inner object alone as streams send it. */
export function wireError(text: string): WireError | undefined {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    return undefined // the HTML page of a proxy, or an empty body
  }
  const inner = isRecord(parsed) && isRecord(parsed.error) ? parsed.error : parsed
  if (!isRecord(inner) || typeof inner.code !== 'string' || typeof inner.message !== 'string') return undefined
  return { ...inner, code: inner.code, message: inner.message }
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

/** True for failures that say nothing about the request itself. */
export function isTransient(error: unknown): boolean {
  return error instanceof SandglassError && (error.is('DAEMON_UNREACHABLE') || error.is('SHUTTING_DOWN'))
}

/** Names an unknown field as the caller wrote it: in camel case. */
export function withWrittenNames(error: SandglassError, body: object | undefined): SandglassError {
  const [, fields, meant] = /^unknown field ([\w, ]+)(?:; did you mean (\w+)\?)?$/.exec(error.message) ?? []
  if (!error.is('INVALID_REQUEST') || fields === undefined) return error
  const written = new Map(Object.keys(body ?? {}).map(name => [snakeName(name), name]))
  const names = fields.replace(/\w+/g, name => written.get(name) ?? name)
  return error.with({ issue: `unknown field ${names}${meant ? `; did you mean ${camelName(meant)}?` : ''}` })
}

/** The messages of Node for a reply that did not come, or not all of it. */
const LOST_WORDS = /^(aborted|socket hang up|terminated|other side closed|(read|write) (ECONNRESET|EPIPE))$/
export const LOST = 'the connection was lost'

export function unreachable(address: string, error: unknown): SandglassError {
  const root = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const why = root instanceof Error ? root.message || String((root as { code?: unknown }).code ?? root.name) : String(root)
  return new SandglassError('DAEMON_UNREACHABLE', { address, why: LOST_WORDS.test(why) ? LOST : why }, { cause: error })
}

/** Says in the error of a lost connection what may still run in the session. An error of a connection that was never made stays as it is. */
export function withSession(error: unknown, running: { session: string; pid?: number }): unknown {
  if (!(error instanceof SandglassError) || !error.is('DAEMON_UNREACHABLE') || !error.detail.why.startsWith(LOST)) return error
  return error.with(running)
}
