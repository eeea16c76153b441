// Removes what no image of the store has any more. Something under way holds what it needs.
import { allImages, deleteImage, namelessBuilds, namelessImages, sessionsUsing } from '../../store/images.ts'
import type { ImageWorld } from '../context.ts'
import { digestsOf, layeredImage } from './layer-record.ts'

/** A pull that was cut off can be taken up again for so long. */
const GRACE_MS = 24 * 3600 * 1000

/** Built images that no name leads to: what an overlay stands on, or what a file that is changed back would be built to again. */
const BUILDS_KEPT = 16

/** Bytes of blobs that are gone. `gone` are digests of an image that was removed on purpose. */
export function prune(world: ImageWorld, gone: ReadonlySet<string> = new Set()): Promise<number> {
  // One after the other: two would stumble over what the other removes.
  const turn = world.images.pruning.then(() => pruneNow(world, gone))
  world.images.pruning = turn.catch(() => undefined) // whoever waits for the turn hears of it
  return turn
}

async function pruneNow(world: ImageWorld, gone: ReadonlySet<string>): Promise<number> {
  const { store, images, backends } = world
  const due = new Set([...gone, ...(await removeNameless(world))])
  const rows = await allImages(store)
  const digests = new Set<string>(images.held.keys())
  for (const row of rows) for (const digest of digestsOf(row)) digests.add(digest)
  const freed = await images.blobs.prune(digests, (digest, ageMs) => {
    // Something may have come to need it since.
    return !images.held.has(digest) && (due.has(digest) || ageMs > GRACE_MS)
  })
  const kept = rows.map(row => layeredImage(images.blobs, row, row.id))
  for (const backend of backends.values()) await backend.pruneImages?.(kept, new Set(images.held.keys()))
  return freed
}

/** An image whose name moved on to another stays for the sessions that started from it, and no longer. The digests of what is gone. */
async function removeNameless({ store, images, config, log, now }: ImageWorld): Promise<Set<string>> {
  const builds = new Set(await namelessBuilds(store, now() - config.images.max_image_age_seconds * 1000, BUILDS_KEPT))
  const gone = new Set<string>()
  for (const row of await namelessImages(store)) {
    if (builds.has(row.id) || images.held.has(row.id) || (await sessionsUsing(store, row.id)).length > 0) continue
    await deleteImage(store, row.id)
    for (const digest of digestsOf(row)) gone.add(digest)
    log.info({ image: row.id }, 'image removed: no name leads to it')
  }
  return gone
}
