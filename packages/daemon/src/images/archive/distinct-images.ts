// The images that the list of an archive names.
import { LIMITS, SandglassError } from '@sandglass/contract'

/**
 * Each once, under all of its names.
 * SECURITY: a few bytes in the list of an archive name one image any number of times, each of which costs as much as the image.
 */
export function distinctImages<T extends { readonly id: string; readonly references: readonly string[] }>(
  image: string,
  found: readonly T[],
): T[] {
  const distinct = new Map<string, { first: T; names: Set<string> }>()
  const names = new Set<string>()
  for (const each of found) {
    const known = distinct.get(each.id) ?? { first: each, names: new Set() }
    distinct.set(each.id, known)
    for (const name of each.references) {
      known.names.add(name)
      names.add(name)
    }
  }
  for (const [what, count, { max }] of [
    ['images', distinct.size, LIMITS.archive_images],
    ['names', names.size, LIMITS.archive_names],
  ] as const)
    if (count > max) throw new SandglassError('IMAGE_TOO_LARGE', { image, what, max })
  return [...distinct.values()].map(({ first, names }) => ({ ...first, references: [...names] }))
}
