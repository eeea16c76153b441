// The last step of every way into the store: the row, once all of the image is there.
import type { Image } from '@sandglass/contract'
import { admitImage, findImage, referencesOf } from '../../store/images.ts'
import type { ImageRow } from '../../store/tables.ts'
import type { ImageWorld } from '../context.ts'
import { digestOf, type ImageConfig } from '../manifest.ts'
import { keptSettings } from './kept-settings.ts'
import { digestsOf, type LayerRecord } from './layer-record.ts'
import { showImage } from './show.ts'

export interface Arrived {
  readonly config: Buffer
  readonly architecture: string
  readonly manifestDigest: string
  readonly source: ImageRow['source']
  readonly layers: readonly LayerRecord[]
  readonly references: readonly string[]
}

/** The image with this configuration, if all of it is there under whatever name, with these names added. */
export async function admitStored(world: ImageWorld, config: Buffer, references: readonly string[]): Promise<Image | null> {
  const { store, images, now } = world
  const row = await findImage(store, digestOf(config))
  if (!row || ![...digestsOf(row)].every(digest => images.blobs.has(digest))) return null
  await admitImage(store, { ...row, last_used_at: now() }, references)
  return showImage({ ...row, references: await referencesOf(store, row.id) })
}

/** The caller holds the image's digests, so that nothing of it is removed meanwhile. */
export async function admit(world: ImageWorld, arrived: Arrived): Promise<Image> {
  const { store, images, now } = world
  const id = digestOf(arrived.config)
  await images.blobs.keep(id, arrived.config)
  const row: ImageRow = {
    id,
    manifest_digest: arrived.manifestDigest,
    source: arrived.source,
    architecture: arrived.architecture,
    config: JSON.stringify({ config: keptSettings(JSON.parse(arrived.config.toString('utf8')) as ImageConfig) }),
    layers: JSON.stringify(arrived.layers),
    size_bytes: arrived.layers.reduce((sum, layer) => sum + layer.size_bytes, 0),
    created_at: now(),
    last_used_at: now(),
  }
  await admitImage(store, row, arrived.references)
  world.log.info({ image: id, references: arrived.references, source: row.source }, 'image stored')
  return showImage({ ...((await findImage(store, id)) ?? row), references: await referencesOf(store, id) })
}
