// allowed_images of the configuration: absent, any; a list, exactly those.
import { type Config, SandglassError } from '@sandglass/contract'
import { normalised } from '../reference.ts'

/** `ids` are what a name leads to, for a list that has ids in it. */
export function requireAllowed({ allowed_images }: Readonly<Config>, image: string, ids: readonly string[] = []): void {
  if (!allowed_images) return
  const names = [normalised(image), ...ids]
  if (!allowed_images.some(allowed => names.includes(normalised(allowed))))
    throw new SandglassError('IMAGE_NOT_ALLOWED', { image })
}
