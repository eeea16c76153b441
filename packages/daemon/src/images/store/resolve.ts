// From what a request names to an image: one of the store, or after a pull.
import { SandglassError } from '@sandglass/contract'
import { findImageNamed, findImagesByPrefix } from '../../store/images.ts'
import type { Store } from '../../store/open.ts'
import type { ImageRow } from '../../store/tables.ts'
import { idPrefix, parseReference } from '../reference.ts'

/** By reference, by id, or by the beginning of one that only one image has. */
export async function findStored(store: Store, ref: string): Promise<ImageRow | undefined> {
  const hex = idPrefix(ref)
  if (hex !== null) {
    const [found, ...more] = await findImagesByPrefix(store, hex)
    if (more.length > 0)
      throw new SandglassError('INVALID_REQUEST', {
        issue: `several images have an id that begins with ${hex}`,
        next: 'give more of it',
      })
    if (found || ref.startsWith('sha256:')) return found
  }
  return findImageNamed(store, parseReference(ref).name)
}
