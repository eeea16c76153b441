// Inserts an image into the store. This is the last step of a pull, an import and a build, after all blobs are written.
import type { Image } from '@sandglass/contract'
import { admitImage, findImage, referencesOf } from '../../store/images.ts'
import type { ImageRow } from '../../store/tables.ts'
import type { ImageContext } from '../context.ts'
import { digestOf, type ImageConfig } from '../manifest.ts'
import { digestsOf, type LayerRecord, showImage, storedSettings } from './image-row.ts'

export interface NewImage {
  readonly config: Buffer
  readonly architecture: string
  readonly manifestDigest: string
  readonly source: ImageRow['source']
  readonly layers: readonly LayerRecord[]
  readonly references: readonly string[]
}

/** Adds names to the stored image with this configuration. Null if there is none or a blob of it is missing. */
export async function addReferences(context: ImageContext, config: Buffer, references: readonly string[]): Promise<Image | null> {
  const { store, images, now } = context
  const row = await findImage(store, digestOf(config))
  if (!row || ![...digestsOf(row)].every(digest => images.blobs.has(digest))) return null
  await admitImage(store, { ...row, last_used_at: now() }, references)
  return showImage({ ...row, references: await referencesOf(store, row.id) })
}

/** The caller has pinned the image's digests, so that none of its blobs is pruned meanwhile. */
export async function insertImage(context: ImageContext, image: NewImage): Promise<Image> {
  const { store, images, now } = context
  const id = digestOf(image.config)
  await images.blobs.write(id, image.config)
  const row: ImageRow = {
    id,
    manifest_digest: image.manifestDigest,
    source: image.source,
    architecture: image.architecture,
    config: JSON.stringify({ config: storedSettings(JSON.parse(image.config.toString('utf8')) as ImageConfig) }),
    layers: JSON.stringify(image.layers),
    size_bytes: image.layers.reduce((sum, layer) => sum + layer.size_bytes, 0),
    created_at: now(),
    last_used_at: now(),
  }
  await admitImage(store, row, image.references)
  context.log.info({ image: id, references: image.references, source: row.source }, 'image stored')
  return showImage({ ...((await findImage(store, id)) ?? row), references: await referencesOf(store, id) })
}
