// Bodies in which every chunk is signed: STREAMING-AWS4-HMAC-SHA256-PAYLOAD, with and without a trailer.
import { Transform } from 'node:stream'
import type { Signer } from './sign.ts'

/** A chunk's signature stands before its data, so that a whole chunk is in memory. AWS SDKs use 64 to 128 KiB. */
export const MAX_CHUNK_BYTES = 1024 * 1024
const MAX_LINE = 256
const MAX_TRAILER_LINE = 4096
const MAX_TRAILER_LINES = 16
const CHUNK_HEADER = /^([0-9a-fA-F]{1,8});chunk-signature=[0-9a-f]{64}\r\n$/
const TRAILER_LINE = /^([A-Za-z0-9-]+):(.*?)\r?\n$/
const TRAILER_SIGNATURE = 'x-amz-trailer-signature'

/**
 * Signs each chunk again. `seed` is the signature of the request. The length of the body stays the same: only signatures are exchanged.
 *
 * A chunk is `SIZE;chunk-signature=HEX\r\n DATA \r\n`; the last has size 0. A trailer follows that line directly: headers, then
 * `x-amz-trailer-signature:HEX`, then an empty line. SECURITY: anything else is an error, which ends the request; so does data after the end.
 */
export function resignChunks(signer: Signer, seed: string, hasTrailer: boolean): Transform {
  let previous = seed
  let state: 'header' | 'data' | 'trailer' | 'end' = 'header'
  let line = ''
  let header = ''
  let data = Buffer.alloc(0)
  let filled = 0
  const trailers: [name: string, value: string][] = []
  let isTrailerSigned = false

  /** Reads up to the end of a line; null while the line is not complete. */
  function takeLine(chunk: Buffer, from: number, limit: number): { text: string | null; next: number } {
    const newline = chunk.indexOf(0x0a, from)
    const next = newline === -1 ? chunk.length : newline + 1
    if (line.length + next - from > limit) throw new Error('a line of the signed body is too long')
    line += chunk.toString('latin1', from, next)
    if (newline === -1) return { text: null, next }
    const text = line
    line = ''
    return { text, next }
  }

  function takeHeader(chunk: Buffer, from: number): number {
    const { text, next } = takeLine(chunk, from, MAX_LINE)
    if (text === null) return next
    const size = CHUNK_HEADER.exec(text)?.[1]
    if (size === undefined) throw new Error('the signed body has a line that is not the header of a chunk')
    const length = Number.parseInt(size, 16)
    if (length > MAX_CHUNK_BYTES) throw new Error(`a chunk of the signed body has more than ${MAX_CHUNK_BYTES} bytes`)
    header = size
    filled = 0
    if (length === 0 && hasTrailer) {
      previous = signer.signChunk(previous, Buffer.alloc(0))
      transform.push(chunkHeader(size, previous))
      state = 'trailer'
    } else {
      data = Buffer.allocUnsafe(length + 2)
      state = 'data'
    }
    return next
  }

  function takeData(chunk: Buffer, from: number): number {
    const copied = chunk.copy(data, filled, from)
    filled += copied
    if (filled < data.length) return from + copied
    const content = data.subarray(0, -2)
    if (data.toString('latin1', content.length) !== '\r\n')
      throw new Error('a chunk of the signed body has another length than it says')
    previous = signer.signChunk(previous, content)
    transform.push(chunkHeader(header, previous))
    transform.push(data)
    state = content.length === 0 ? 'end' : 'header'
    return from + copied
  }

  function takeTrailer(chunk: Buffer, from: number): number {
    const { text, next } = takeLine(chunk, from, MAX_TRAILER_LINE)
    if (text === null) return next
    if (isTrailerSigned) {
      if (text !== '\r\n') throw new Error('the signature of the trailer is not its last line')
      state = 'end'
      transform.push(text)
      return next
    }
    if (text === '\r\n' && trailers.length > 0) {
      // Some clients end the headers with an empty line of their own, before the signature.
      transform.push(text)
      return next
    }
    const [, name, value] = TRAILER_LINE.exec(text) ?? []
    if (name === undefined || value === undefined || trailers.length >= MAX_TRAILER_LINES)
      throw new Error('the signed body has a bad trailer')
    if (name.toLowerCase() === TRAILER_SIGNATURE) {
      const canonical = trailers.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, content]) => `${key}:${content}\n`)
      transform.push(`${name}:${signer.signTrailer(previous, canonical.join(''))}${text.endsWith('\r\n') ? '\r\n' : '\n'}`)
      isTrailerSigned = true
    } else {
      trailers.push([name.toLowerCase(), value.trim()])
      transform.push(text)
    }
    return next
  }

  const steps = {
    header: takeHeader,
    data: takeData,
    trailer: takeTrailer,
    end: () => {
      throw new Error('the signed body continues after its last chunk')
    },
  }

  const transform = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      try {
        for (let at = 0; at < chunk.length; ) at = steps[state](chunk, at)
        done()
      } catch (error) {
        done(error instanceof Error ? error : new Error('the signed body cannot be signed again', { cause: error }))
      }
    },
    flush(done) {
      done(state === 'end' ? null : new Error('the signed body ends before its last chunk'))
    },
  })
  return transform
}

const chunkHeader = (size: string, signature: string): string => `${size};chunk-signature=${signature}\r\n`
