// Bounds the memory that file contents in JSON take. SECURITY: such a body is in memory several times over, as text, as a value and as bytes; a few
// dozen at once would end the daemon. Bodies that are passed on as they come need none of this.
import { LIMITS, type RouteName, SandglassError } from '@sandglass/contract'
import type { FastifyRequest } from 'fastify'
import type { Semaphore } from '../../lib/semaphore.ts'

const WAIT_MS = 60_000

/** Waits until `bytes` of the budget are free. Throws TOO_MANY_WAITING when they are not in time. */
export async function reserveBody(budget: Semaphore, bytes: number, signal: AbortSignal, waitMs = WAIT_MS): Promise<() => void> {
  const deadline = AbortSignal.timeout(waitMs)
  try {
    return await budget.acquire(AbortSignal.any([signal, deadline]), bytes)
  } catch (error) {
    if (error === deadline.reason) throw new SandglassError('TOO_MANY_WAITING', { what: 'large file requests' })
    throw error
  }
}

/** What the budget is asked for; 0 for requests that are small by another bound. */
export function largeBytes(name: RouteName | undefined, { headers, query, routeOptions }: FastifyRequest): number {
  const bytes = name === 'fsWrite' ? bodyBytes() : name === 'fsRead' ? Number((query as { max_bytes?: string }).max_bytes) : 0
  return bytes > LIMITS.request_body_bytes.max ? bytes : 0

  function bodyBytes(): number {
    const length = Number(headers['content-length'] ?? routeOptions.bodyLimit)
    // What is too large is refused before a byte of it is read.
    return length > (routeOptions.bodyLimit ?? 0) ? 0 : length
  }
}
