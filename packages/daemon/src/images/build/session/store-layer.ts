// Puts the tar of a new layer into the image store: written to a file for its digest, then checked and unpacked like any other layer.
import { createHash } from 'node:crypto'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { LIMITS, SandglassError } from '@sandglass/contract'
import type { LayerLimits } from '../../../backends/image-builds.ts'
import { openLayer } from '../../../layers/layer-tar.ts'
import { type ImageContext, reserveBytes } from '../../context.ts'
import { LAYER_TYPE } from '../../manifest.ts'
import { Budget } from '../../store/budget.ts'
import type { LayerRecord } from '../../store/image-row.ts'
import { importLayer } from '../../store/import-layer.ts'
import { openSizeLimit } from '../../store/size-limit.ts'

/** A tar without entries is only its end marker. */
const EMPTY_BYTES = 1024

/** The limits of the next layer. Throws IMAGE_TOO_LARGE if the image has as many layers as it may have. */
export function layerLimits(context: ImageContext, image: string, layers: readonly LayerRecord[]): LayerLimits {
  const { max } = LIMITS.image_layers
  if (layers.length >= max) throw new SandglassError('IMAGE_TOO_LARGE', { image, what: 'layers', max })
  const used = layers.reduce((sum, { size_bytes }) => sum + size_bytes, 0)
  return { maxBytes: Math.max(0, context.config.images.max_bytes - used), maxEntries: LIMITS.image_entries.max }
}

/** Null for a tar without entries. `pin` is called with the digest before anything could prune the layer. */
export async function storeLayer(
  context: ImageContext,
  image: string,
  tar: Readable,
  limits: LayerLimits,
  pin: (digest: string) => void,
  signal: AbortSignal,
): Promise<LayerRecord | null> {
  const folder = await mkdtemp(join(context.images.importDir, 'layer-'))
  try {
    const { path, digest, size } = await write(context, image, folder, tar, limits)
    signal.throwIfAborted()
    if (size <= EMPTY_BYTES) return null
    pin(digest)
    await context.images.layerMutex.run(digest, async () => {
      const budget = new Budget(image, limits.maxBytes, await reserveBytes(context))
      const layer = { image, diffId: digest, compression: 'none', onBytes: (bytes: number) => budget.addTarBytes(bytes) } as const
      await importLayer(context, image, digest, openLayer(path, layer), budget, signal)
      if (!context.images.blobs.has(digest)) await context.images.blobs.adopt(path, digest)
    })
    return { digest, diff_id: digest, media_type: LAYER_TYPE, size_bytes: size, compression: 'none' }
  } finally {
    tar.destroy()
    await rm(folder, { recursive: true, force: true })
  }
}

async function write(
  context: ImageContext,
  image: string,
  folder: string,
  tar: Readable,
  { maxBytes }: LayerLimits,
): Promise<{ path: string; digest: string; size: number }> {
  const path = join(folder, 'layer.tar')
  const sizeLimit = await openSizeLimit(context, folder, { image, what: 'bytes', max: maxBytes + EMPTY_BYTES })
  const hash = createHash('sha256')
  let size = 0
  await using file = await open(path, 'wx', 0o600)
  for await (const piece of tar as AsyncIterable<Buffer>) {
    await sizeLimit.add(piece.length)
    hash.update(piece)
    await file.write(piece)
    size += piece.length
  }
  return { path, digest: `sha256:${hash.digest('hex')}`, size }
}
