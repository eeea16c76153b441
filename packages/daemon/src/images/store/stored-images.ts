// The image store: blobs are files, rows are in the database. This file has the routes on stored images:
// GET /v1/images, GET /v1/images/{ref} and DELETE /v1/images/{ref}: find, list, show and remove stored images.
import { type Image, type ImageList, type ImageQuery, type ImageRemoved, LIMITS, SandglassError } from '@sandglass/contract'
import {
  deleteImage,
  findImageNamed,
  findImagesByPrefix,
  listImages as listRows,
  referencesOf,
  removeReferences,
  sessionsUsing,
} from '../../store/images.ts'
import type { Store } from '../../store/open.ts'
import type { ImageRow } from '../../store/tables.ts'
import type { ImageContext } from '../context.ts'
import { idPrefix, parseReference, requireAllowed } from '../reference.ts'
import { showImage } from './image-row.ts'
import { prune } from './prune.ts'
import { removeSteps } from './steps.ts'

/** By reference, by id, or by a prefix of an id that only one image has. */
export async function findStored(store: Store, ref: string): Promise<ImageRow | undefined> {
  const hex = idPrefix(ref)
  if (hex !== null) {
    const [found, ...more] = await findImagesByPrefix(store, hex)
    if (more.length > 0)
      throw new SandglassError('INVALID_REQUEST', {
        issue: `several images have an id that begins with ${hex}`,
        next: 'give more digits of the id',
      })
    if (found || ref.startsWith('sha256:')) return found
  }
  return findImageNamed(store, parseReference(ref).name)
}

export async function listImages({ store }: ImageContext, query: ImageQuery): Promise<ImageList> {
  const page = { limit: query.limit ?? LIMITS.list_page.default, offset: query.offset ?? 0 }
  const { rows, total, nextCursor } = await listRows(store, { ...page, cursor: query.cursor })
  return { items: rows.map(showImage), total, ...page, next_cursor: nextCursor }
}

export async function getImage({ store }: ImageContext, ref: string): Promise<Image> {
  const row = await requireStored(store, ref)
  return showImage({ ...row, references: await referencesOf(store, row.id) })
}

/** Removes one name; the image is removed with its last name. An id removes all names. */
export async function removeImage(context: ImageContext, ref: string): Promise<ImageRemoved> {
  const { store, images, log } = context
  const row = await requireStored(store, ref)
  const names = await referencesOf(store, row.id)
  const isById = idPrefix(ref) !== null && !names.includes(parseReference(ref).name)
  const references = isById ? names : [parseReference(ref).name]
  if (references.length < names.length) {
    await removeReferences(store, references)
    return { id: row.id, references, removed: false, freed_bytes: 0 }
  }
  const sessions = await sessionsUsing(store, row.id)
  if (sessions.length > 0) throw new SandglassError('IMAGE_IN_USE', { image: ref, sessions })
  if (images.pins.has(row.id)) throw new SandglassError('IMAGE_IN_USE', { image: ref, sessions: ['that is being created'] })
  await deleteImage(store, row.id)
  log.info({ image: row.id, references }, 'image removed')
  return { id: row.id, references, removed: true, freed_bytes: await prune(context, await removeSteps(context, row)) }
}

/** Throws IMAGE_NOT_ALLOWED. A create calls this before it does anything else. */
export async function refuseForbiddenImage({ config, store }: ImageContext, image: string): Promise<void> {
  const stored = image === 'host' ? undefined : await findStored(store, image)
  requireAllowed(config, image, stored ? [stored.id] : [])
}

async function requireStored(store: Store, ref: string): Promise<ImageRow> {
  const row = await findStored(store, ref)
  if (!row) throw new SandglassError('IMAGE_NOT_FOUND', { image: ref })
  return row
}
