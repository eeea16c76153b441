// POST /v1/images/import: imports the images of a docker save archive or of an OCI layout.
import type { Readable } from 'node:stream'
import type { Image } from '@sandglass/contract'
import { fileCompression, openLayer } from '../../layers/layer-tar.ts'
import type { ImageRow } from '../../store/tables.ts'
import { type ImageContext, reserveBytes } from '../context.ts'
import { Progress } from '../pull/progress.ts'
import { requireAllowed } from '../reference.ts'
import { Budget } from '../store/budget.ts'
import type { LayerRecord } from '../store/image-row.ts'
import { importLayer } from '../store/import-layer.ts'
import { addReferences, insertImage } from '../store/insert.ts'
import { prune } from '../store/prune.ts'
import { type ArchivedImage, type ArchivedLayer, archivedImages, withReference } from './archive-images.ts'
import { type Spool, spoolArchive } from './spool.ts'

export interface Import {
  readonly progress: Progress
  readonly done: Promise<Image[]>
}

/** Images that were found in a spooled archive, on their way into the store. */
export interface SpooledImport {
  readonly spool: Spool
  readonly images: readonly ArchivedImage[]
  readonly source: ImageRow['source']
  readonly progress: Progress
  readonly signal: AbortSignal
}

/** Resolves when the whole body has been received and parsed. `progress` and `done` report the rest. */
export async function importArchive(
  context: ImageContext,
  body: Readable,
  reference: string | undefined,
  signal: AbortSignal,
): Promise<Import> {
  if (reference !== undefined) requireAllowed(context.config, reference)
  const spool = await spoolArchive(context, reference ?? 'the archive', body, signal)
  try {
    const images = withReference(await archivedImages(spool), reference)
    for (const image of images) for (const name of image.references) requireAllowed(context.config, name)
    const progress = new Progress()
    return { progress, done: storeImages(context, { spool, images, source: 'archive', progress, signal }) }
  } catch (error) {
    await spool.remove()
    throw error
  }
}

/** Removes the spool at the end. */
export async function storeImages(context: ImageContext, work: SpooledImport): Promise<Image[]> {
  const { spool, images, progress } = work
  const layers = images.flatMap(image => image.layers)
  const unpin = context.images.pins.pin([
    ...images.map(({ id }) => id),
    ...layers.flatMap(({ file, diffId }) => [file.digest, diffId]),
  ])
  try {
    for (const { file } of layers) progress.set({ digest: file.digest, phase: 'waiting', done_bytes: 0, total_bytes: file.size })
    const stored: Image[] = []
    for (const image of images) stored.push(await storeImage(context, work, image))
    return stored
  } finally {
    unpin()
    progress.end()
    await spool.remove()
    await prune(context)
  }
}

async function storeImage(context: ImageContext, work: SpooledImport, image: ArchivedImage): Promise<Image> {
  const config = await image.config()
  const stored = await addReferences(context, config, image.references)
  if (stored) return stored
  const budget = new Budget(work.spool.image, context.config.images.max_bytes, await reserveBytes(context))
  const layers: LayerRecord[] = []
  for (const layer of image.layers) layers.push(await storeLayer(context, work, layer, budget))
  return await insertImage(context, { ...image, config, source: work.source, layers })
}

async function storeLayer(
  context: ImageContext,
  { spool: { image }, progress, signal }: SpooledImport,
  { file, diffId, mediaType }: ArchivedLayer,
  budget: Budget,
): Promise<LayerRecord> {
  const { blobs } = context.images
  const { digest, size } = file
  // Several layers of an archive may share one file. The first has moved it into the store.
  const path = blobs.has(digest) ? blobs.path(digest) : file.path
  const compression = await fileCompression(path)
  progress.set({ digest, phase: 'unpacking', done_bytes: 0, total_bytes: size })
  const tar = openLayer(path, {
    image,
    diffId,
    compression,
    onBytes: bytes => {
      budget.addTarBytes(bytes)
      progress.add(digest, bytes)
    },
  })
  await importLayer(context, image, diffId, tar, budget, signal)
  if (path === file.path) await blobs.adopt(path, digest)
  progress.set({ digest, phase: 'done', done_bytes: size, total_bytes: size })
  return { digest, diff_id: diffId, media_type: mediaType, size_bytes: size, compression }
}
