// DELETE /v1/images/{ref}: a name goes, and with the last name the image. By id, all names go.
import { type ImageRemoved, SandglassError } from '@sandglass/contract'
import { deleteImage, referencesOf, removeReferences, sessionsUsing } from '../../store/images.ts'
import type { ImageWorld } from '../context.ts'
import { idPrefix, parseReference } from '../reference.ts'
import { digestsOf } from './layer-record.ts'
import { prune } from './prune.ts'
import { findStored } from './resolve.ts'

export async function removeImage(world: ImageWorld, ref: string): Promise<ImageRemoved> {
  const { store, images, log } = world
  const row = await findStored(store, ref)
  if (!row) throw new SandglassError('IMAGE_NOT_FOUND', { image: ref })
  const names = await referencesOf(store, row.id)
  const isById = idPrefix(ref) !== null && !names.includes(parseReference(ref).name)
  const references = isById ? names : [parseReference(ref).name]
  if (references.length < names.length) {
    await removeReferences(store, references)
    return { id: row.id, references, removed: false, freed_bytes: 0 }
  }
  const sessions = await sessionsUsing(store, row.id)
  if (sessions.length > 0) throw new SandglassError('IMAGE_IN_USE', { image: ref, sessions })
  if (images.held.has(row.id)) throw new SandglassError('IMAGE_IN_USE', { image: ref, sessions: ['that is being made'] })
  await deleteImage(store, row.id)
  log.info({ image: row.id, references }, 'image removed')
  return { id: row.id, references, removed: true, freed_bytes: await prune(world, digestsOf(row)) }
}
