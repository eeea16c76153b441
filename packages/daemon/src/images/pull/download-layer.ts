// One layer from a registry into the store. As it comes, its bytes are written, hashed, uncompressed, checked and unpacked, in one pass. What a
// pull that was cut off has left of it goes first through the same steps, and the registry is asked for the rest alone.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { SandglassError } from '@sandglass/contract'
import { compressionOf, fileCompression } from '../../layers/compression.ts'
import { type Compression, layerTar, openLayer } from '../../layers/layer-tar.ts'
import { allImages } from '../../store/images.ts'
import { freeBytes, type ImageWorld } from '../context.ts'
import type { Registry } from '../registry/registry.ts'
import type { Budget } from '../store/budget.ts'
import { type LayerRecord, layersOf } from '../store/layer-record.ts'
import { fetchBlob, type WantedBlob } from './fetch-blob.ts'
import type { Progress } from './progress.ts'
import { takeLayer } from './take-layer.ts'

const MiB = 1024 * 1024
const LOOK_EVERY = 8 * MiB

export interface WantedLayer extends WantedBlob {
  readonly diffId: string
  readonly mediaType: string
}

export interface LayerPull {
  readonly world: ImageWorld
  readonly registry: Registry
  readonly budget: Budget
  readonly progress: Progress
  readonly signal: AbortSignal
}

/** One layer at a time is written under one digest, whichever images want it. */
export async function downloadLayer(pull: LayerPull, layer: WantedLayer): Promise<LayerRecord> {
  const { arriving } = pull.world.images
  while (arriving.has(layer.digest)) await arriving.get(layer.digest)
  const { promise, resolve } = Promise.withResolvers<void>()
  arriving.set(layer.digest, promise)
  try {
    const compression = await storeLayer(pull, layer)
    pull.progress.set({ digest: layer.digest, phase: 'done', done_bytes: layer.size, total_bytes: layer.size })
    return { digest: layer.digest, diff_id: layer.diffId, media_type: layer.mediaType, size_bytes: layer.size, compression }
  } finally {
    arriving.delete(layer.digest)
    resolve()
  }
}

async function storeLayer(pull: LayerPull, layer: WantedLayer): Promise<Compression> {
  const { blobs } = pull.world.images
  const { digest } = layer
  if (!blobs.has(digest)) return await receive(pull, layer)
  const path = blobs.path(digest)
  const compression = await fileCompression(path)
  if (await isKnown(pull.world, layer)) return compression
  pull.progress.set({ digest, phase: 'unpacking', done_bytes: 0, total_bytes: layer.size })
  const tar = openLayer(path, {
    image: layer.image,
    diffId: layer.diffId,
    compression,
    onBytes: bytes => pull.budget.spend(bytes),
  })
  await takeLayer(pull.world, layer.image, layer.diffId, tar, pull.budget, pull.signal)
  return compression
}

/** Whether some image has it: then the blob was found to unpack to the layer. */
async function isKnown({ store }: ImageWorld, { digest, diffId }: WantedLayer): Promise<boolean> {
  return (await allImages(store)).some(row => layersOf(row).some(layer => layer.digest === digest && layer.diff_id === diffId))
}

async function receive(pull: LayerPull, layer: WantedLayer): Promise<Compression> {
  const { blobs } = pull.world.images
  const part = blobs.part(layer.digest)
  pull.progress.set({ digest: layer.digest, phase: 'downloading', done_bytes: 0, total_bytes: layer.size })
  try {
    const arrival = new Arrival(pull, layer, part)
    const bytes = arrival.bytes()
    const first = await bytes.next()
    const start = first.done ? Buffer.alloc(0) : first.value
    const compression = compressionOf(start)
    const { image, diffId } = layer
    const tar = layerTar(Readable.from(chained(start, bytes), { objectMode: false, highWaterMark: MiB }), {
      image,
      diffId,
      compression,
      onBytes: size => pull.budget.spend(size),
    })
    await takeLayer(pull.world, image, diffId, tar, pull.budget, pull.signal)
    // Padding behind the compressed data is nothing to whoever uncompresses it, and part of the blob all the same.
    if (!arrival.isWhole) for await (const _ of new Arrival(pull, layer, part).bytes());
    await blobs.adopt(part, layer.digest)
    return compression
  } catch (error) {
    pull.signal.throwIfAborted()
    const { code } = error as NodeJS.ErrnoException
    const isFull = code === 'ENOSPC' || code === 'EDQUOT' || code === 'IMAGE_STORE_FULL'
    // A part is of use only while it may be the beginning of the right thing; and on a full disk it is in the way of everybody.
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

/** The bytes of a layer, from the part that is there and from the registry, hashed on their way. */
class Arrival {
  readonly #pull: LayerPull
  readonly #layer: WantedLayer
  readonly #part: string
  readonly #hash = createHash('sha256')
  #unlooked = LOOK_EVERY
  isWhole = false

  constructor(pull: LayerPull, layer: WantedLayer, part: string) {
    this.#pull = pull
    this.#layer = layer
    this.#part = part
  }

  /** Ends only when all of it has come and is what the digest says. */
  async *bytes(): AsyncGenerator<Buffer, void, undefined> {
    const { digest, size, image } = this.#layer
    await using file = await open(this.#part, 'a', 0o600)
    const { size: kept } = await file.stat()
    if (kept > size) await file.truncate(0)
    const from = kept > size ? 0 : kept
    if (from > 0) for await (const piece of createReadStream(this.#part, { highWaterMark: 256 * 1024 })) yield this.#saw(piece)
    for await (const piece of fetchBlob(this.#pull.registry, this.#layer, from, this.#pull.signal)) {
      await this.#write(file, piece)
      yield this.#saw(piece)
    }
    const found = `sha256:${this.#hash.digest('hex')}`
    if (found !== digest)
      throw new SandglassError('IMAGE_DIGEST_MISMATCH', { image, digest, issue: `is ${found}, of ${size} bytes` })
    this.isWhole = true
  }

  #saw(piece: Buffer): Buffer {
    this.#hash.update(piece)
    this.#pull.progress.add(this.#layer.digest, piece.length)
    return piece
  }

  async #write(file: FileHandle, piece: Buffer): Promise<void> {
    this.#unlooked += piece.length
    if (this.#unlooked >= LOOK_EVERY) {
      this.#unlooked = 0
      if ((await freeBytes(this.#pull.world.images.importDir)) < this.#pull.budget.limits.reserveBytes)
        throw new SandglassError('IMAGE_STORE_FULL', {
          image: this.#layer.image,
          why: 'the disk of the data folder has no room for it',
        })
    }
    await file.write(piece)
  }
}
