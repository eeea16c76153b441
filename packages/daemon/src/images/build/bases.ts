// The images that a Dockerfile starts from: of the store, or pulled into it. The engine gets them from there and looks for none itself.
import { type ImageProgress, SandglassError } from '@sandglass/contract'
import type { LayeredImage } from '../../backends/backend.ts'
import { referenceAge } from '../../store/images.ts'
import type { ImageRow } from '../../store/tables.ts'
import type { ImageWorld } from '../context.ts'
import { invalid } from '../manifest.ts'
import { pullImage } from '../pull/pull.ts'
import { parseReference } from '../reference.ts'
import { requireAllowed } from '../store/allowed.ts'
import { layeredImage } from '../store/layer-record.ts'
import { findStored } from '../store/resolve.ts'
import type { BuildEvent } from './build-log.ts'
import { refuseTriggers } from './dockerfile/triggers.ts'
import { triggersIn } from './dockerfile/triggers-in.ts'

export interface Base {
  readonly reference: string
  readonly id: string
  readonly image: LayeredImage
}

export interface BaseOptions {
  /** What came from a registry longer ago is looked for again. */
  readonly maxAgeMs: number
  readonly fetches: boolean
  /** Id of an image that was built just before, which needs nobody's leave. */
  readonly own: string | undefined
  /** Called with the id of each as soon as it is known. */
  readonly hold: (id: string) => void
}

/** SECURITY: every reference is checked against allowed_images before anything is brought for it. */
export async function* resolveBases(
  world: ImageWorld,
  references: readonly string[],
  options: BaseOptions,
  signal: AbortSignal,
): AsyncGenerator<BuildEvent, Base[], undefined> {
  for (const reference of references) {
    if (reference === options.own) continue
    const stored = await findStored(world.store, reference)
    requireAllowed(world.config, reference, stored ? [stored.id] : [])
  }
  const bases: Base[] = []
  for (const reference of references) {
    const row = yield* resolve(world, reference, options, signal)
    options.hold(row.id)
    refuseTriggers(reference, await triggersOf(world, row), options.fetches)
    bases.push({ reference, id: row.id, image: layeredImage(world.images.blobs, row, reference) })
  }
  return bases
}

async function* resolve(
  world: ImageWorld,
  reference: string,
  { maxAgeMs }: BaseOptions,
  signal: AbortSignal,
): AsyncGenerator<BuildEvent, ImageRow, undefined> {
  const stored = await findStored(world.store, reference)
  if (stored && !(await isOld(world, stored, reference, maxAgeMs))) return stored
  try {
    const { progress, done } = pullImage(world, reference, signal)
    done.catch(() => undefined) // told below
    yield* progressEvents(progress.follow())
    await done
  } catch (error) {
    signal.throwIfAborted()
    if (!stored || !(error instanceof SandglassError)) throw error
    yield { event: 'output', data: { text: `${reference} is used as it is in the store: ${error.message}\n` } }
  }
  const row = await findStored(world.store, reference)
  if (!row) throw new SandglassError('IMAGE_NOT_FOUND', { image: reference })
  return row
}

export async function* progressEvents(layers: AsyncIterable<ImageProgress>): AsyncGenerator<BuildEvent, void, undefined> {
  for await (const data of layers) yield { event: 'progress', data }
}

/** One that was imported or built here has no newer one elsewhere, and neither has a digest. */
async function isOld({ store, now }: ImageWorld, row: ImageRow, reference: string, maxAgeMs: number): Promise<boolean> {
  if (row.source !== 'registry' || row.id.includes(reference)) return false
  const { name, digest } = parseReference(reference)
  const resolvedAt = digest === null ? await referenceAge(store, name) : undefined
  return resolvedAt !== undefined && now() - resolvedAt > maxAgeMs
}

/** SECURITY: of the configuration that the engine gets. The row has not all of it. */
async function triggersOf({ images }: ImageWorld, { id }: ImageRow): Promise<string[]> {
  const config = await images.blobs.read(id)
  if (!config) throw invalid(id, 'its configuration is gone')
  return triggersIn(id, config)
}
