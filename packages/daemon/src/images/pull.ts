// POST /v1/images/pull.
import { type Image, SandglassError } from '@sandglass/contract'
import type { ImageWorld } from './image-world.ts'
import { Progress } from './progress.ts'

export interface Pull {
  readonly progress: Progress
  readonly done: Promise<Image>
}

export function pullImage(_world: ImageWorld, reference: string, _signal: AbortSignal): Pull {
  const progress = new Progress()
  progress.end()
  return { progress, done: Promise.reject(new SandglassError('IMAGE_NOT_FOUND', { image: reference })) }
}
