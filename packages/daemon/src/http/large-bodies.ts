// Bounds the memory that file contents in JSON take. SECURITY: such a body is in memory several times over, as text, as a value and as bytes; a few
// dozen at once would end the daemon. Bodies that are passed on as they come need none of this.
import { LIMITS, type RouteName, SandglassError } from '@sandglass/contract'
import type { FastifyRequest } from 'fastify'

const WAIT_MS = 60_000

export class ByteBudget {
  readonly #total: number
  #free: number
  readonly #waiting: { bytes: number; begin: () => void }[] = []

  constructor(total: number) {
    this.#total = total
    this.#free = total
  }

  get taken(): number {
    return this.#total - this.#free
  }

  /** Waits for its turn, first in, first out, and returns what releases the bytes. Throws TOO_MANY_WAITING if the turn does not come in time. */
  async take(bytes: number, signal: AbortSignal, waitMs = WAIT_MS): Promise<() => void> {
    const wanted = Math.min(bytes, this.#total)
    if (this.#waiting.length > 0 || wanted > this.#free)
      await this.#turn(wanted, AbortSignal.any([signal, AbortSignal.timeout(waitMs)]))
    else this.#free -= wanted
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#free += wanted
      this.#admit()
    }
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next && next.bytes <= this.#free; next = this.#waiting[0]) {
      this.#waiting.shift()
      this.#free -= next.bytes
      next.begin()
    }
  }

  async #turn(bytes: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiting = { bytes, begin: resolve }
    const leave = () => {
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
      this.#admit()
      const isLate = (signal.reason as Error | undefined)?.name === 'TimeoutError'
      reject(isLate ? new SandglassError('TOO_MANY_WAITING', { what: 'large file requests' }) : signal.reason)
    }
    this.#waiting.push(waiting)
    signal.addEventListener('abort', leave)
    await promise.finally(() => signal.removeEventListener('abort', leave))
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
