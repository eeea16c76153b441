// A layer's blob as the tar it holds: uncompressed, and checked while it passes.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type Readable, Transform, type TransformCallback } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { SandglassError } from '@sandglass/contract/tables'
import { ZstdFrames } from './zstd-frames.ts'

export type Compression = 'none' | 'gzip' | 'zstd'

export interface LayerSource {
  /** The image that it is of, for messages. */
  readonly image: string
  readonly diffId: string
  readonly compression: Compression
  /** Told of each piece of the tar. SECURITY: a few bytes may unpack to any number of them; what this throws ends the tar. */
  readonly onBytes?: (bytes: number) => void
}

const PIECE_BYTES = 256 * 1024

/** The tar of a blob in a file. It ends only if it is what the diff id says; else it fails. */
export function openLayer(blob: string, layer: LayerSource): Readable {
  return layerTar(createReadStream(blob, { highWaterMark: PIECE_BYTES }), layer)
}

/** The same for a blob that is still coming. */
export function layerTar(blob: Readable, layer: LayerSource): Readable {
  const checked = new CheckedTar(layer)
  const inflate = layer.compression === 'none' ? null : layer.compression === 'gzip' ? gunzip() : zstd()
  // What goes wrong in any of them is told by the last, which is all that the caller sees; and none outlives it.
  for (const step of inflate ? [blob, inflate] : [blob]) {
    step.on('error', error => checked.destroy(failure(error, layer)))
    checked.once('close', () => step.destroy())
  }
  // It may fail before anybody reads it, who then finds it failed.
  checked.on('error', () => undefined)
  if (inflate) blob.pipe(inflate).pipe(checked)
  else blob.pipe(checked)
  return checked
}

const gunzip = () => createGunzip({ chunkSize: PIECE_BYTES })
const zstd = () => new ZstdFrames(PIECE_BYTES)

class CheckedTar extends Transform {
  readonly #layer: LayerSource
  readonly #hash = createHash('sha256')

  constructor(layer: LayerSource) {
    super({ highWaterMark: 2 * PIECE_BYTES })
    this.#layer = layer
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    try {
      this.#layer.onBytes?.(chunk.length)
    } catch (error) {
      done(error as Error)
      return
    }
    this.#hash.update(chunk)
    done(null, chunk)
  }

  override _flush(done: TransformCallback): void {
    const { image, diffId } = this.#layer
    const found = `sha256:${this.#hash.digest('hex')}`
    if (found === diffId) done()
    else done(new SandglassError('IMAGE_DIGEST_MISMATCH', { image, digest: diffId, issue: `unpacks to ${found}` }))
  }
}

function failure(error: unknown, { image }: LayerSource): Error {
  const { code, message } = error as { code?: unknown; message: string }
  if (error instanceof SandglassError || typeof code !== 'string' || !/^(Z_|ZSTD_)/.test(code)) return error as Error
  return new SandglassError('IMAGE_INVALID', { image, issue: `a layer cannot be uncompressed: ${message}` }, { cause: error })
}
