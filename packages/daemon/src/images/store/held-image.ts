// The image of a session that is being made: found in the store or pulled, and held so that nobody removes it before the session's row names it.

import type { ImageWorld } from '../context.ts'
import { pullImage } from '../pull/pull.ts'
import { requireAllowed } from './allowed.ts'
import { findStored } from './resolve.ts'

export interface HeldImage {
  /** Null for `host`. */
  readonly id: string | null
  release(): void
}

/** Throws what a create is refused with before anything else is done for it. */
export async function refuseForbiddenImage({ config, store }: ImageWorld, image: string): Promise<void> {
  const stored = image === 'host' ? undefined : await findStored(store, image)
  requireAllowed(config, image, stored ? [stored.id] : [])
}

export async function holdImage(world: ImageWorld, image: string, signal: AbortSignal): Promise<HeldImage> {
  if (image === 'host') return { id: null, release: () => undefined }
  const { id } = (await findStored(world.store, image)) ?? (await pullImage(world, image, signal).done)
  return { id, release: world.images.held.hold([id]) }
}
