// POST /v1/images/import: the images of a docker save archive or of an OCI layout.
import type { Readable } from 'node:stream'
import type { Image } from '@sandglass/contract'
import { fileCompression } from '../../layers/compression.ts'
import { openLayer } from '../../layers/layer-tar.ts'
import type { ImageRow } from '../../store/tables.ts'
import { type ImageWorld, reserveBytes } from '../context.ts'
import { Progress } from '../pull/progress.ts'
import { takeLayer } from '../pull/take-layer.ts'
import { admit, admitStored } from '../store/admit.ts'
import { requireAllowed } from '../store/allowed.ts'
import { Budget } from '../store/budget.ts'
import type { LayerRecord } from '../store/layer-record.ts'
import { prune } from '../store/prune.ts'
import { type ArchivedImage, type ArchivedLayer, archivedImages, named } from './archive-images.ts'
import { type Spool, spoolArchive } from './spool.ts'

export interface Import {
  readonly progress: Progress
  readonly done: Promise<Image[]>
}

/** Resolves when the whole body has come and makes sense; the rest of the work is told by `progress`, and its end by `done`. */
export async function importArchive(
  world: ImageWorld,
  body: Readable,
  reference: string | undefined,
  signal: AbortSignal,
): Promise<Import> {
  const name = reference ?? 'the archive'
  if (reference !== undefined) requireAllowed(world.config, reference)
  const spool = await spoolArchive(world, name, body, signal)
  try {
    const found = named(await archivedImages(spool, name), reference)
    for (const image of found) for (const given of image.references) requireAllowed(world.config, given)
    const progress = new Progress()
    return { progress, done: storeImages(world, spool, name, found, 'archive', progress, signal) }
  } catch (error) {
    await spool.remove()
    throw error
  }
}

/** Removes the spool. */
export async function storeImages(
  world: ImageWorld,
  spool: Spool,
  name: string,
  found: readonly ArchivedImage[],
  source: ImageRow['source'],
  progress: Progress,
  signal: AbortSignal,
): Promise<Image[]> {
  const all = found.flatMap(({ id, layers }) => [id, ...layers.flatMap(({ file, diffId }) => [file.digest, diffId])])
  const release = world.images.held.hold(all)
  try {
    for (const { file } of found.flatMap(({ layers }) => layers))
      progress.set({ digest: file.digest, phase: 'waiting', done_bytes: 0, total_bytes: file.size })
    const images: Image[] = []
    for (const image of found) images.push(await storeOne(world, name, image, source, progress, signal))
    return images
  } finally {
    release()
    progress.end()
    await spool.remove()
    await prune(world)
  }
}

async function storeOne(
  world: ImageWorld,
  name: string,
  image: ArchivedImage,
  source: ImageRow['source'],
  progress: Progress,
  signal: AbortSignal,
): Promise<Image> {
  const config = await image.config()
  const stored = await admitStored(world, config, image.references)
  if (stored) return stored
  const budget = new Budget(name, world.config.images.max_bytes, await reserveBytes(world))
  const layers: LayerRecord[] = []
  for (const layer of image.layers) layers.push(await storeLayer(world, name, layer, budget, progress, signal))
  return await admit(world, { ...image, config, source, layers })
}

async function storeLayer(
  world: ImageWorld,
  image: string,
  { file, diffId, mediaType }: ArchivedLayer,
  budget: Budget,
  progress: Progress,
  signal: AbortSignal,
): Promise<LayerRecord> {
  const { blobs } = world.images
  const { digest, size } = file
  // An archive may have one file for several layers: the first has moved it into the store.
  const path = blobs.has(digest) ? blobs.path(digest) : file.path
  const compression = await fileCompression(path)
  progress.set({ digest, phase: 'unpacking', done_bytes: 0, total_bytes: size })
  const tar = openLayer(path, {
    image,
    diffId,
    compression,
    onBytes: bytes => {
      budget.spend(bytes)
      progress.add(digest, bytes)
    },
  })
  await takeLayer(world, image, diffId, tar, budget, signal)
  if (path === file.path) await blobs.adopt(path, digest)
  progress.set({ digest, phase: 'done', done_bytes: size, total_bytes: size })
  return { digest, diff_id: diffId, media_type: mediaType, size_bytes: size, compression }
}
