// Downloads one layer into the store. Its bytes are written, hashed, decompressed, checked and unpacked in one pass. A partial download of an
// interrupted pull goes through the same steps first, and the registry is asked only for the rest.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { SandglassError } from '@sandglass/contract'
import { type Compression, compressionOf, fileCompression, layerTar, openLayer } from '../../layers/layer-tar.ts'
import { allImages } from '../../store/images.ts'
import { freeBytes, type ImageContext } from '../context.ts'
import type { Registry } from '../registry/registry.ts'
import type { Budget } from '../store/budget.ts'
import { type LayerRecord, layersOf } from '../store/image-row.ts'
import { importLayer } from '../store/import-layer.ts'
import { fetchBlob, type WantedBlob } from './fetch-blob.ts'
import type { Progress } from './progress.ts'

const MiB = 1024 * 1024
/** Bytes written between two checks of the free disk space. */
const CHECK_INTERVAL = 8 * MiB

export interface WantedLayer extends WantedBlob {
  readonly diffId: string
  readonly mediaType: string
}

export interface LayerPull {
  readonly context: ImageContext
  readonly registry: Registry
  readonly budget: Budget
  readonly progress: Progress
  readonly signal: AbortSignal
}

export async function downloadLayer(pull: LayerPull, layer: WantedLayer): Promise<LayerRecord> {
  const { digest, size, diffId, mediaType } = layer
  const compression = await pull.context.images.layerMutex.run(digest, () => storeLayer(pull, layer))
  pull.progress.set({ digest, phase: 'done', done_bytes: size, total_bytes: size })
  return { digest, diff_id: diffId, media_type: mediaType, size_bytes: size, compression }
}

async function storeLayer(pull: LayerPull, layer: WantedLayer): Promise<Compression> {
  const { blobs } = pull.context.images
  const { digest } = layer
  if (!blobs.has(digest)) return await receive(pull, layer)
  const path = blobs.path(digest)
  const compression = await fileCompression(path)
  if (await isKnown(pull.context, layer)) return compression
  pull.progress.set({ digest, phase: 'unpacking', done_bytes: 0, total_bytes: layer.size })
  const tar = openLayer(path, {
    image: layer.image,
    diffId: layer.diffId,
    compression,
    onBytes: bytes => pull.budget.addTarBytes(bytes),
  })
  await importLayer(pull.context, layer.image, layer.diffId, tar, pull.budget, pull.signal)
  return compression
}

/** True if a stored image has this layer: then the blob was already checked against the diff id. */
async function isKnown({ store }: ImageContext, { digest, diffId }: WantedLayer): Promise<boolean> {
  return (await allImages(store)).some(row => layersOf(row).some(layer => layer.digest === digest && layer.diff_id === diffId))
}

async function receive(pull: LayerPull, layer: WantedLayer): Promise<Compression> {
  const { blobs } = pull.context.images
  const part = blobs.part(layer.digest)
  pull.progress.set({ digest: layer.digest, phase: 'downloading', done_bytes: 0, total_bytes: layer.size })
  try {
    const blob = new BlobDownload(pull, layer, part)
    const bytes = blob.bytes()
    const first = await bytes.next()
    const start = first.done ? Buffer.alloc(0) : first.value
    const compression = compressionOf(start)
    const { image, diffId } = layer
    const tar = layerTar(Readable.from(chained(start, bytes), { objectMode: false, highWaterMark: MiB }), {
      image,
      diffId,
      compression,
      onBytes: size => pull.budget.addTarBytes(size),
    })
    await importLayer(pull.context, image, diffId, tar, pull.budget, pull.signal)
    // A decompressor stops before padding after the compressed data, but the padding is part of the blob.
    if (!blob.isComplete) for await (const _ of new BlobDownload(pull, layer, part).bytes());
    await blobs.adopt(part, layer.digest)
    return compression
  } catch (error) {
    pull.signal.throwIfAborted()
    const { code } = error as NodeJS.ErrnoException
    const isFull = code === 'ENOSPC' || code === 'EDQUOT' || code === 'IMAGE_STORE_FULL'
    // A partial download is kept only if it may be a prefix of the right blob, and never on a full disk.
    if (isFull || (error instanceof SandglassError && !error.is('REGISTRY_FAILED'))) await rm(part, { force: true })
    if (!isFull || error instanceof SandglassError) throw error
    throw new SandglassError(
      'IMAGE_STORE_FULL',
      { image: layer.image, why: 'the disk of the data folder is full' },
      { cause: error },
    )
  }
}

async function* chained(first: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
  yield first
  yield* rest
}

/** The bytes of a blob, first from the partial download and then from the registry. */
class BlobDownload {
  readonly #pull: LayerPull
  readonly #layer: WantedLayer
  readonly #part: string
  readonly #hash = createHash('sha256')
  #unchecked = CHECK_INTERVAL
  isComplete = false

  constructor(pull: LayerPull, layer: WantedLayer, part: string) {
    this.#pull = pull
    this.#layer = layer
    this.#part = part
  }

  /** Ends only if all bytes arrived and match the digest; else throws. */
  async *bytes(): AsyncGenerator<Buffer, void, undefined> {
    const { digest, size, image } = this.#layer
    await using file = await open(this.#part, 'a', 0o600)
    const { size: kept } = await file.stat()
    if (kept > size) await file.truncate(0)
    const from = kept > size ? 0 : kept
    if (from > 0) for await (const piece of createReadStream(this.#part, { highWaterMark: 256 * 1024 })) yield this.#count(piece)
    for await (const piece of fetchBlob(this.#pull.registry, this.#layer, from, this.#pull.signal)) {
      await this.#write(file, piece)
      yield this.#count(piece)
    }
    const found = `sha256:${this.#hash.digest('hex')}`
    if (found !== digest)
      throw new SandglassError('IMAGE_DIGEST_MISMATCH', { image, digest, issue: `is ${found}, of ${size} bytes` })
    this.isComplete = true
  }

  #count(piece: Buffer): Buffer {
    this.#hash.update(piece)
    this.#pull.progress.add(this.#layer.digest, piece.length)
    return piece
  }

  async #write(file: FileHandle, piece: Buffer): Promise<void> {
    this.#unchecked += piece.length
    if (this.#unchecked >= CHECK_INTERVAL) {
      this.#unchecked = 0
      if ((await freeBytes(this.#pull.context.images.importDir)) < this.#pull.budget.limits.reserveBytes)
        throw new SandglassError('IMAGE_STORE_FULL', {
          image: this.#layer.image,
          why: 'the disk of the data folder has no space left for it',
        })
    }
    await file.write(piece)
  }
}
