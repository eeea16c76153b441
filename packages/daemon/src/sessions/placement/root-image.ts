// From the image that a request or a row names to what a machine starts from.
import { SandglassError } from '@sandglass/contract'
import type { RootImage } from '../../backends/backend.ts'
import { layeredImage } from '../../images/store/layer-record.ts'
import { findImage } from '../../store/images.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'

/** A session keeps the image that its name led to when it was made, wherever the name leads since. */
export async function rootImage(
  context: SessionContext,
  { image, image_id }: Pick<SessionRow, 'image' | 'image_id'>,
): Promise<RootImage> {
  if (image_id === null) return { kind: 'host' }
  const row = await findImage(context.store, image_id)
  if (!row) throw new SandglassError('IMAGE_NOT_FOUND', { image })
  return layeredImage(context.images.blobs, row, image)
}
