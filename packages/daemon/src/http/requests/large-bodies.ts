// Bounds the memory of file contents in JSON. SECURITY: such a body is in memory several times, as text, as a value and as bytes; a few dozen at
// once would end the daemon. Bodies that are streamed are not counted.
import { Readable } from 'node:stream'
import { LIMITS, SandglassError } from '@sandglass/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Semaphore } from '../../lib/semaphore.ts'

const WAIT_MS = 60_000
/** Smaller bodies are not counted. */
const SMALL_BYTES = LIMITS.request_body_bytes.max

export class LargeBodies {
  readonly #budget: Semaphore
  readonly #waitMs: number

  constructor(budget = new Semaphore(LIMITS.large_bodies_bytes.max), waitMs = WAIT_MS) {
    this.#budget = budget
    this.#waitMs = waitMs
  }

  /** Reserves memory for the body or the reply until the connection or the reply is over. Throws TOO_MANY_WAITING when none becomes free. */
  async reserve(request: FastifyRequest, response: FastifyReply, body: Readable): Promise<Readable> {
    const { name } = request.routeOptions.config
    if (name === 'fsWrite' && request.headers['content-length'] === undefined)
      return Readable.from(this.#metered(request, response, body), { objectMode: false })
    const bytes = name === 'fsWrite' ? declaredBytes(request) : name === 'fsRead' ? maxBytes(request) : 0
    if (bytes > SMALL_BYTES) await this.#acquire(bytes, response)
    return body
  }

  /**
   * A body whose length is not known in advance reserves nothing while it is small, and then at once the most that it may have. Growing
   * step by step, several of them could wait for each other.
   */
  async *#metered(request: FastifyRequest, response: FastifyReply, body: Readable): AsyncGenerator<Buffer, void, undefined> {
    let read = 0
    let isReserved = false
    // The request stays open when this fails, so that the reply can be sent.
    for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      read += chunk.length
      if (read > SMALL_BYTES && !isReserved) {
        await this.#acquire(request.routeOptions.bodyLimit ?? SMALL_BYTES, response)
        isReserved = true
      }
      yield chunk
    }
  }

  async #acquire(bytes: number, { raw }: FastifyReply): Promise<void> {
    const ended = new AbortController()
    const deadline = setTimeout(
      () => ended.abort(new SandglassError('TOO_MANY_WAITING', { what: 'large file requests' })),
      this.#waitMs,
    )
    const leave = () => ended.abort()
    raw.once('close', leave)
    if (raw.destroyed) leave()
    try {
      const release = await this.#budget.acquire(ended.signal, bytes)
      raw.once('close', release)
      if (raw.destroyed) release()
    } finally {
      clearTimeout(deadline)
      raw.off('close', leave)
    }
  }
}

/** 0 for a body that is too large: it is refused before a byte of it is read. */
function declaredBytes({ headers, routeOptions }: FastifyRequest): number {
  const length = Number(headers['content-length'])
  return length > (routeOptions.bodyLimit ?? 0) ? 0 : length
}

const maxBytes = ({ query }: FastifyRequest): number => Number((query as { max_bytes?: string }).max_bytes)
