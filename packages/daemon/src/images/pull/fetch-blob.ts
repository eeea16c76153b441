// Reads a blob from a registry. After a lost connection it reconnects and continues at the same byte.
import { setTimeout as sleep } from 'node:timers/promises'
import { SandglassError } from '@sandglass/contract'
import type { Registry } from '../registry/registry.ts'

/** Consecutive attempts without a new byte. */
const MAX_ATTEMPTS = 4
const FIRST_WAIT_MS = 200
/** SECURITY: without a minimum rate a registry could hold a pull open for ever. At least so many bytes per window. */
const MIN_BYTES = 64 * 1024
const WINDOW_MS = 60_000
/** The minimum average rate over the whole blob, including reconnects. */
const MIN_BYTES_PER_MS = (16 * 1024) / 1000
const LONGEST_TIMER_MS = 2 ** 31 - 1

export interface WantedBlob {
  readonly image: string
  readonly digest: string
  readonly size: number
}

export async function* fetchBlob(
  registry: Registry,
  { image, digest, size }: WantedBlob,
  from: number,
  signal: AbortSignal,
  deadlineMs = blobDeadlineMs(size - from),
): AsyncGenerator<Buffer, void, undefined> {
  const deadline = AbortSignal.timeout(deadlineMs)
  const limit = AbortSignal.any([signal, deadline])
  let at = from
  for (let failures = 0; at < size; ) {
    try {
      const { body, start } = await registry.blob(digest, at, limit)
      let skip = at - start
      const rate = new RateCheck()
      for await (const piece of body as AsyncIterable<Buffer>) {
        rate.add(piece.length)
        const rest = skip >= piece.length ? piece.subarray(piece.length) : piece.subarray(skip)
        skip -= piece.length - rest.length
        if (rest.length === 0) continue
        at += rest.length
        if (skip < 0 || at > size)
          throw new SandglassError('IMAGE_DIGEST_MISMATCH', { image, digest, issue: `has more than its ${size} bytes` })
        failures = 0
        yield rest
      }
      // The response is complete by its Content-Length, but shorter than the manifest says.
      if (at < size && body.headers['content-length'] !== undefined)
        throw new SandglassError('IMAGE_DIGEST_MISMATCH', { image, digest, issue: `has ${at} of its ${size} bytes` })
      if (at < size) throw new Error(`the connection was lost after ${at} of ${size} bytes`)
    } catch (error) {
      signal.throwIfAborted()
      if (deadline.aborted)
        throw lost(registry, new Error(`only ${at - from} of ${size - from} bytes arrived in ${deadlineMs / 1000} seconds`))
      if (error instanceof SandglassError && !error.is('REGISTRY_FAILED')) throw error
      if (++failures >= MAX_ATTEMPTS) throw error instanceof SandglassError ? error : lost(registry, error)
      await sleep(FIRST_WAIT_MS * 2 ** failures, undefined, { signal })
    }
  }
}

/** The longest time that a download of so many bytes may take. */
export const blobDeadlineMs = (bytes: number) => Math.min(LONGEST_TIMER_MS, WINDOW_MS + Math.ceil(bytes / MIN_BYTES_PER_MS))

function lost(registry: Registry, error: unknown): SandglassError {
  return new SandglassError('REGISTRY_FAILED', { registry: registry.name, why: (error as Error).message }, { cause: error })
}

class RateCheck {
  #since = Date.now()
  #bytes = 0

  add(bytes: number): void {
    this.#bytes += bytes
    if (Date.now() - this.#since < WINDOW_MS) return
    if (this.#bytes < MIN_BYTES) throw new Error(`only ${this.#bytes} bytes arrived in ${WINDOW_MS / 1000} seconds`)
    this.#since = Date.now()
    this.#bytes = 0
  }
}
