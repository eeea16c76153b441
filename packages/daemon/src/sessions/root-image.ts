// From the image that a request or a row names to what a machine starts from.
import { SandglassError } from '@sandglass/contract'
import type { RootImage } from '../backends/backend.ts'

export function rootImage(reference: string): RootImage {
  if (reference !== 'host') throw new SandglassError('IMAGE_NOT_FOUND', { image: reference })
  return { kind: 'host' }
}
