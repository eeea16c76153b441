// Removes blobs, layers and nameless images that nothing needs. Running operations pin what they need.
import { allImages, deleteImage, namelessBuilds, namelessImages, sessionsUsing } from '../../store/images.ts'
import type { ImageContext } from '../context.ts'
import { digestsOf, layeredImage } from './image-row.ts'

/** How long an unused blob or a partial download stays, so that an interrupted pull can resume. */
const GRACE_MS = 24 * 3600 * 1000

/** Number of nameless built images that stay: bases of overlays, and results that a reverted file would need again. */
const BUILDS_KEPT = 16
/** The same for the results of single steps, which later builds continue from. They share most layers with the images above. */
const STEPS_KEPT = 256

/** Returns the bytes of removed blobs. `gone` are the digests of an image that was just deleted: they get no grace period. */
export function prune(context: ImageContext, gone: ReadonlySet<string> = new Set()): Promise<number> {
  // One prune at a time: two would fail on files that the other has removed.
  const run = context.images.pruning.then(() => pruneNow(context, gone))
  context.images.pruning = run.catch(() => undefined) // the caller of this prune gets the error
  return run
}

async function pruneNow(context: ImageContext, gone: ReadonlySet<string>): Promise<number> {
  const { store, images, backends } = context
  const due = new Set([...gone, ...(await removeNameless(context))])
  const rows = await allImages(store)
  const needed = new Set<string>(images.pins.keys())
  for (const row of rows) for (const digest of digestsOf(row)) needed.add(digest)
  const freed = await images.blobs.prune(needed, (digest, ageMs) => {
    // It may have been pinned since the start of this prune.
    return !images.pins.has(digest) && (due.has(digest) || ageMs > GRACE_MS)
  })
  const kept = [...rows.map(row => layeredImage(images.blobs, row, row.id)), ...images.building]
  const trust = await context.trusted?.()
  for (const backend of backends.values()) await backend.pruneImages?.(kept, new Set(images.pins.keys()), trust)
  return freed
}

/** Deletes images without a name that no session uses. Returns their digests. */
async function removeNameless({ store, images, config, log, now }: ImageContext): Promise<Set<string>> {
  const since = now() - config.images.max_image_age_seconds * 1000
  const builds = new Set([
    ...(await namelessBuilds(store, since, BUILDS_KEPT, 'build')),
    ...(await namelessBuilds(store, since, STEPS_KEPT, 'step')),
  ])
  const gone = new Set<string>()
  for (const row of await namelessImages(store)) {
    if (builds.has(row.id) || images.pins.has(row.id) || (await sessionsUsing(store, row.id)).length > 0) continue
    await deleteImage(store, row.id)
    for (const digest of digestsOf(row)) gone.add(digest)
    log.info({ image: row.id }, 'nameless image removed')
  }
  return gone
}
