// Opens a layer's blob as a tar stream: decompresses it and checks its digest on the way.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { type Readable, Transform, type TransformCallback } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { SandglassError } from '@sandglass/contract/tables'
import { ZstdFrames } from './zstd-frames.ts'

export type Compression = 'none' | 'gzip' | 'zstd'

export interface LayerSource {
  /** Name of the image, for error messages. */
  readonly image: string
  readonly diffId: string
  readonly compression: Compression
  /** Called with the length of each piece of the tar; an exception fails the tar. SECURITY: stops a decompression bomb. */
  readonly onBytes?: (bytes: number) => void
}

const PIECE_BYTES = 256 * 1024

/** The tar of a blob file. The stream ends only if the tar matches the diff id; else it fails. */
export function openLayer(blob: string, layer: LayerSource): Readable {
  return layerTar(createReadStream(blob, { highWaterMark: PIECE_BYTES }), layer)
}

/** The same for a blob that is still being downloaded. */
export function layerTar(blob: Readable, layer: LayerSource): Readable {
  const checked = new CheckedTar(layer)
  const inflate = layer.compression === 'none' ? null : layer.compression === 'gzip' ? gunzip() : zstd()
  // The caller sees only the last stream: it reports the errors of all, and destroys all when it closes.
  for (const step of inflate ? [blob, inflate] : [blob]) {
    step.on('error', error => checked.destroy(failure(error, layer)))
    checked.once('close', () => step.destroy())
  }
  // It may fail before a reader is attached. The reader then gets the error.
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
  return new SandglassError('IMAGE_INVALID', { image, issue: `a layer cannot be decompressed: ${message}` }, { cause: error })
}

/** Detected from the first bytes: the media type in a manifest is not always right. */
export function compressionOf(start: Uint8Array): Compression {
  if (start[0] === 0x1f && start[1] === 0x8b) return 'gzip'
  const isZstd = start[0] === 0x28 && start[1] === 0xb5 && start[2] === 0x2f && start[3] === 0xfd
  // A zstd stream may begin with a skippable frame.
  const isSkippable =
    start[0] !== undefined && (start[0] & 0xf0) === 0x50 && start[1] === 0x2a && start[2] === 0x4d && start[3] === 0x18
  return isZstd || isSkippable ? 'zstd' : 'none'
}

export async function fileCompression(path: string): Promise<Compression> {
  await using file = await open(path)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0)
  return compressionOf(buffer.subarray(0, bytesRead))
}
