import { SandglassError, type WireError } from '@sandglass/contract/tables'
import type { ResponseLike } from './transport.ts'

/** The error that a reply stands for. The only place where one is rebuilt from HTTP. */
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
    return undefined // a proxy's HTML page, an empty body
  }
  const inner = isRecord(parsed) && isRecord(parsed.error) ? parsed.error : parsed
  if (!isRecord(inner) || typeof inner.code !== 'string' || typeof inner.message !== 'string') return undefined
  return { ...inner, code: inner.code, message: inner.message }
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
