// Results of build steps that belong to an image that is removed. Nobody sees them in a list, so they must not stay behind and take space.
import { allImages, deleteImage } from '../../store/images.ts'
import type { ImageRow } from '../../store/tables.ts'
import type { ImageContext } from '../context.ts'
import { digestsOf, layersOf } from './image-row.ts'

/** Deletes the steps that led to an image that has just been deleted, and to no other image. Returns the digests of all. */
export async function removeSteps({ store, images }: ImageContext, gone: ImageRow): Promise<Set<string>> {
  const rows = await allImages(store)
  const others = rows.filter(({ source }) => source !== 'step')
  const digests = digestsOf(gone)
  for (const row of rows) {
    const isLeft = row.source === 'step' && beginsWith(gone, row) && !others.some(other => beginsWith(other, row))
    if (!isLeft || images.pins.has(row.id)) continue
    await deleteImage(store, row.id)
    for (const digest of digestsOf(row)) digests.add(digest)
  }
  return digests
}

function beginsWith(image: ImageRow, step: ImageRow): boolean {
  const layers = layersOf(image)
  return layersOf(step).every(({ digest }, i) => layers[i]?.digest === digest)
}
