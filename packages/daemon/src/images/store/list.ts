// GET /v1/images and /v1/images/{ref}.
import { type Image, type ImageList, type ImageQuery, LIMITS, SandglassError } from '@sandglass/contract'
import { listImages as listRows, referencesOf } from '../../store/images.ts'
import type { ImageWorld } from '../context.ts'
import { findStored } from './resolve.ts'
import { showImage } from './show.ts'

export async function listImages({ store }: ImageWorld, query: ImageQuery): Promise<ImageList> {
  const page = { limit: query.limit ?? LIMITS.list_page.default, offset: query.offset ?? 0 }
  const { rows, total, nextCursor } = await listRows(store, { ...page, cursor: query.cursor })
  return { items: rows.map(showImage), total, ...page, next_cursor: nextCursor }
}

export async function getImage({ store }: ImageWorld, ref: string): Promise<Image> {
  const row = await findStored(store, ref)
  if (!row) throw new SandglassError('IMAGE_NOT_FOUND', { image: ref })
  return showImage({ ...row, references: await referencesOf(store, row.id) })
}
