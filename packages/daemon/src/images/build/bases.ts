// Resolves the base images of a Dockerfile: from the store, or pulled into it. The engine gets them from the store and resolves none itself.
import { type ImageProgress, SandglassError } from '@sandglass/contract'
import type { LayeredImage } from '../../backends/backend.ts'
import { referenceAge } from '../../store/images.ts'
import type { ImageRow } from '../../store/tables.ts'
import type { ImageContext } from '../context.ts'
import { invalid } from '../manifest.ts'
import { pullImage } from '../pull/pull.ts'
import { parseReference, requireAllowed } from '../reference.ts'
import { layeredImage } from '../store/image-row.ts'
import { findStored } from '../store/stored-images.ts'
import type { BuildEvent } from './build-log.ts'
import { onbuildIn, refuseOnbuild } from './dockerfile/onbuild.ts'
import { copyHost, HOST, hostKey, storedHost } from './host-base.ts'

export interface Base {
  readonly reference: string
  readonly id: string
  /** What stands for it in the key of a build. */
  readonly key: string
  readonly image: LayeredImage
}

export interface BaseOptions {
  /** A base that was pulled longer ago is pulled again. */
  readonly maxAgeMs: number
  readonly fetches: boolean
  /** Id of the project image of an overlay. It was just built and is not checked against allowed_images. */
  readonly projectImage: string | undefined
  /** Called with the id of each base as soon as it is known. */
  readonly pin: (id: string) => void
}

/** SECURITY: every reference is checked against allowed_images before the first pull. */
export async function* resolveBases(
  context: ImageContext,
  references: readonly string[],
  options: BaseOptions,
  signal: AbortSignal,
): AsyncGenerator<BuildEvent, Base[], undefined> {
  for (const reference of references) {
    if (reference === options.projectImage) continue
    const stored = reference === HOST ? undefined : await findStored(context.store, reference)
    requireAllowed(context.config, reference, stored ? [stored.id] : [])
  }
  const bases: Base[] = []
  for (const reference of references) {
    const row = reference === HOST ? yield* resolveHost(context, signal) : yield* resolve(context, reference, options, signal)
    options.pin(row.id)
    refuseOnbuild(reference, await readOnbuild(context, row), options.fetches)
    const key = reference === HOST ? await hostKey(context) : row.id
    bases.push({ reference, id: row.id, key, image: layeredImage(context.images.blobs, row, reference) })
  }
  return bases
}

async function* resolveHost(context: ImageContext, signal: AbortSignal): AsyncGenerator<BuildEvent, ImageRow, undefined> {
  const stored = await storedHost(context)
  if (stored) return stored
  yield { event: 'output', data: { text: 'copying the programs of this machine into an image\n' } }
  return await copyHost(context, signal)
}

async function* resolve(
  context: ImageContext,
  reference: string,
  { maxAgeMs }: BaseOptions,
  signal: AbortSignal,
): AsyncGenerator<BuildEvent, ImageRow, undefined> {
  const stored = await findStored(context.store, reference)
  if (stored && !(await isOld(context, stored, reference, maxAgeMs))) return stored
  try {
    const { progress, done } = pullImage(context, reference, signal)
    done.catch(() => undefined) // awaited below
    yield* progressEvents(progress.follow())
    await done
  } catch (error) {
    signal.throwIfAborted()
    if (!stored || !(error instanceof SandglassError)) throw error
    yield { event: 'output', data: { text: `pull of ${reference} failed, using the stored image: ${error.message}\n` } }
  }
  const row = await findStored(context.store, reference)
  if (!row) throw new SandglassError('IMAGE_NOT_FOUND', { image: reference })
  return row
}

export async function* progressEvents(layers: AsyncIterable<ImageProgress>): AsyncGenerator<BuildEvent, void, undefined> {
  for await (const data of layers) yield { event: 'progress', data }
}

/** Only a pulled tag can be outdated: imported and built images have no registry, and a digest never changes. */
async function isOld({ store, now }: ImageContext, row: ImageRow, reference: string, maxAgeMs: number): Promise<boolean> {
  if (row.source !== 'registry' || row.id.includes(reference)) return false
  const { name, digest } = parseReference(reference)
  const resolvedAt = digest === null ? await referenceAge(store, name) : undefined
  return resolvedAt !== undefined && now() - resolvedAt > maxAgeMs
}

/** SECURITY: read from the configuration that the engine gets. The row may lack settings. */
async function readOnbuild({ images }: ImageContext, { id }: ImageRow): Promise<string[]> {
  const config = await images.blobs.read(id)
  if (!config) throw invalid(id, 'its configuration is missing')
  return onbuildIn(id, config)
}
