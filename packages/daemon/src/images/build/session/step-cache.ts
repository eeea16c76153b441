// The results of steps, by a key of everything that decides them. A result is an image in the store, marked as a step.
import { createHash } from 'node:crypto'
import { findBuild, findImage, recordBuild } from '../../../store/images.ts'
import { manifestDigest } from '../../archive/archive-images.ts'
import type { ImageContext } from '../../context.ts'
import { ARCHITECTURE, digestOf } from '../../manifest.ts'
import { digestsOf, type LayerRecord, layersOf } from '../../store/image-row.ts'
import { insertImage } from '../../store/insert.ts'
import { configOf, type Stage } from './stage.ts'

/** SECURITY: values of arguments are hashed with the rest, so that a stored key reveals nothing about them. */
export const stepKey = (parts: readonly unknown[]): string =>
  createHash('sha256')
    .update(JSON.stringify(['step', '1', ...parts]))
    .digest('hex')

/** The layers after the step; null if it has to be run. */
export async function findStep(context: ImageContext, key: string, maxAgeMs: number | null): Promise<LayerRecord[] | null> {
  const build = maxAgeMs === null ? undefined : await findBuild(context.store, key)
  if (!build || context.now() - build.built_at > (maxAgeMs ?? 0)) return null
  const row = await findImage(context.store, build.image_id)
  if (!row || ![...digestsOf(row)].every(digest => context.images.blobs.has(digest))) return null
  return layersOf(row)
}

export async function recordStep(context: ImageContext, key: string, stage: Stage): Promise<void> {
  // With the key, so that it is never the same image as the result of a build.
  const config = Buffer.from(JSON.stringify({ ...(JSON.parse(configOf(stage).toString()) as object), step: key }))
  const unpin = context.images.pins.pin([digestOf(config)])
  try {
    const { id } = await insertImage(context, { ...imageOf(config, stage), source: 'step', references: [] })
    await recordBuild(context.store, { key, image_id: id, built_at: context.now() })
  } finally {
    unpin()
  }
}

/** The parts of a new image that follow from its configuration and its layers. */
export function imageOf(config: Buffer, { layers }: Pick<Stage, 'layers'>) {
  const files = layers.map(({ digest, size_bytes, diff_id, media_type }) => ({
    file: { path: '', digest, size: size_bytes },
    diffId: diff_id,
    mediaType: media_type,
  }))
  const digest = manifestDigest({ digest: digestOf(config), size: config.length }, files)
  return { config, architecture: ARCHITECTURE, manifestDigest: digest, layers }
}
