// The bytes of a blob from a registry. A connection that is lost is made again where it broke off.
import { setTimeout as sleep } from 'node:timers/promises'
import { SandglassError } from '@sandglass/contract'
import type { Registry } from '../registry/registry.ts'

/** Tries in a row without one new byte. */
const TRIES = 4
const FIRST_WAIT_MS = 200
/** SECURITY: a blob that comes more slowly than this is as good as none: a registry could hold a pull open for ever. */
const LEAST_BYTES = 64 * 1024
const WINDOW_MS = 60_000
/** The least on an average over all of it, however often the connection is lost. */
const LEAST_BYTES_PER_MS = (16 * 1024) / 1000
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
  patienceMs = blobPatienceMs(size - from),
): AsyncGenerator<Buffer, void, undefined> {
  const deadline = AbortSignal.timeout(patienceMs)
  const limit = AbortSignal.any([signal, deadline])
  let at = from
  for (let failures = 0; at < size; ) {
    try {
      const { body, start } = await registry.blob(digest, at, limit)
      let skip = at - start
      const pace = new Pace()
      for await (const piece of body as AsyncIterable<Buffer>) {
        pace.saw(piece.length)
        const rest = skip >= piece.length ? piece.subarray(piece.length) : piece.subarray(skip)
        skip -= piece.length - rest.length
        if (rest.length === 0) continue
        at += rest.length
        if (skip < 0 || at > size)
          throw new SandglassError('IMAGE_DIGEST_MISMATCH', { image, digest, issue: `has more than its ${size} bytes` })
        failures = 0
        yield rest
      }
      // An answer that is whole by its own account, and not by the manifest's.
      if (at < size && body.headers['content-length'] !== undefined)
        throw new SandglassError('IMAGE_DIGEST_MISMATCH', { image, digest, issue: `has ${at} of its ${size} bytes` })
      if (at < size) throw new Error(`the connection was lost after ${at} of ${size} bytes`)
    } catch (error) {
      signal.throwIfAborted()
      if (deadline.aborted)
        throw lost(registry, new Error(`only ${at - from} of ${size - from} bytes came in ${patienceMs / 1000} seconds`))
      if (error instanceof SandglassError && !error.is('REGISTRY_FAILED')) throw error
      if (++failures >= TRIES) throw error instanceof SandglassError ? error : lost(registry, error)
      await sleep(FIRST_WAIT_MS * 2 ** failures, undefined, { signal })
    }
  }
}

/** How long so many bytes may take at most. */
export const blobPatienceMs = (bytes: number) => Math.min(LONGEST_TIMER_MS, WINDOW_MS + Math.ceil(bytes / LEAST_BYTES_PER_MS))

function lost(registry: Registry, error: unknown): SandglassError {
  return new SandglassError('REGISTRY_FAILED', { registry: registry.name, why: (error as Error).message }, { cause: error })
}

class Pace {
  #since = Date.now()
  #bytes = 0

  saw(bytes: number): void {
    this.#bytes += bytes
    if (Date.now() - this.#since < WINDOW_MS) return
    if (this.#bytes < LEAST_BYTES) throw new Error(`no more than ${this.#bytes} bytes came in ${WINDOW_MS / 1000} seconds`)
    this.#since = Date.now()
    this.#bytes = 0
  }
}
