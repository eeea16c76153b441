// POST /v1/images/pull, and the first step of creating a session whose image is not stored yet.
import { type Image, nearest, SandglassError } from '@sandglass/contract'
import { allReferences } from '../../store/images.ts'
import { freeBytes, type ImageContext, reserveBytes } from '../context.ts'
import { invalid, type Manifest, parseConfig, parseManifest, pickPlatform } from '../manifest.ts'
import { DOCKER_HUB, idPrefix, parseReference, type Reference, requireAllowed } from '../reference.ts'
import { Registry } from '../registry/registry.ts'
import { Budget } from '../store/budget.ts'
import type { LayerRecord } from '../store/image-row.ts'
import { addReferences, insertImage } from '../store/insert.ts'
import { prune } from '../store/prune.ts'
import { findStored } from '../store/stored-images.ts'
import { downloadLayer, type LayerPull, type WantedLayer } from './download-layer.ts'
import { Progress } from './progress.ts'

const CONCURRENT_LAYERS = 3

export interface Pull {
  readonly progress: Progress
  readonly done: Promise<Image>
}

export interface PinnedImage {
  /** Null for `host`. */
  readonly id: string | null
  release(): void
}

/** One run of a pull, from the manifest to the row. */
interface PullRun {
  readonly context: ImageContext
  readonly registry: Registry
  /** The full name of the image. */
  readonly image: string
  readonly progress: Progress
  readonly signal: AbortSignal
}

/** Concurrent pulls of one image share the work. Bytes that were downloaded before an abort stay, and the next pull resumes after them. */
export function pullImage(context: ImageContext, wanted: string, signal: AbortSignal): Pull {
  requireAllowed(context.config, wanted)
  if (wanted === 'host')
    throw new SandglassError('INVALID_REQUEST', { issue: 'the image host is this machine and is never pulled' })
  // An id names neither a registry nor a repository.
  if (idPrefix(wanted) !== null && wanted.startsWith('sha256:')) throw new SandglassError('IMAGE_NOT_FOUND', { image: wanted })
  const reference = parseReference(wanted)
  const flight = context.images.pulls.start(
    reference.name,
    () => new Progress(),
    async (progress, signal) => {
      const registry = new Registry(reference, context.config.registries)
      try {
        return await pull({ context, registry, image: reference.name, progress, signal }, reference)
      } catch (error) {
        throw await withNearestImage(context, reference, error)
      } finally {
        registry.close()
      }
    },
  )
  return { progress: flight.progress, done: flight.join(signal) }
}

/** Finds or pulls the image of a session and pins it until the session's row names it. */
export async function pinImage(context: ImageContext, image: string, signal: AbortSignal): Promise<PinnedImage> {
  if (image === 'host') return { id: null, release: () => undefined }
  const { id } = (await findStored(context.store, image)) ?? (await pullImage(context, image, signal).done)
  return { id, release: context.images.pins.pin([id]) }
}

async function pull(run: PullRun, reference: Reference): Promise<Image> {
  const { context, image } = run
  const { manifest, digest } = await findManifest(run, reference)
  checkSizes(run, manifest)
  const config = await configBytes(run, manifest)
  const { architecture, rootfs } = parseConfig(image, config, manifest.layers.length)
  const wanted = manifest.layers.map(
    (layer, i): WantedLayer => ({
      image,
      digest: layer.digest,
      size: layer.size,
      diffId: rootfs.diff_ids[i] ?? '',
      mediaType: layer.mediaType ?? '',
    }),
  )
  const unpin = context.images.pins.pin([manifest.config.digest, ...wanted.flatMap(layer => [layer.digest, layer.diffId])])
  try {
    const references = [image]
    const stored = await addReferences(context, config, references)
    if (stored) return stored
    const layers = await download(run, wanted)
    return await insertImage(context, { config, architecture, manifestDigest: digest, source: 'registry', layers, references })
  } finally {
    unpin()
    await prune(context)
  }
}

/** Follows an index to the manifest for this platform. The digest returned is that of the document that the reference names. */
async function findManifest(
  { registry, image, signal }: PullRun,
  { tag, digest }: Reference,
): Promise<{ manifest: Manifest; digest: string }> {
  const first = await registry.manifest(digest ?? tag ?? 'latest', signal)
  const parsed = parseManifest(image, first.bytes)
  if ('manifest' in parsed) return { manifest: parsed.manifest, digest: first.digest }
  const { bytes } = await registry.manifest(pickPlatform(image, parsed.index).digest, signal)
  const inner = parseManifest(image, bytes)
  if (!('manifest' in inner)) throw invalid(image, 'its index refers to another index')
  return { manifest: inner.manifest, digest: first.digest }
}

/** SECURITY: checked before the first layer byte. The download then enforces the declared sizes. */
function checkSizes({ context, image }: PullRun, { layers }: Manifest): void {
  const max = context.config.images.max_bytes
  if (layers.reduce((sum, { size }) => sum + size, 0) > max)
    throw new SandglassError('IMAGE_TOO_LARGE', { image, what: 'bytes', max })
}

async function configBytes({ context, registry, signal }: PullRun, { config }: Manifest): Promise<Buffer> {
  return (await context.images.blobs.read(config.digest)) ?? (await registry.smallBlob(config.digest, signal))
}

async function download(run: PullRun, wanted: readonly WantedLayer[]): Promise<LayerRecord[]> {
  const { context, image, progress, signal } = run
  const { blobs, importDir } = context.images
  const reserve = await reserveBytes(context)
  const missing = wanted.filter(({ digest }) => !blobs.has(digest)).reduce((sum, { size }) => sum + size, 0)
  if (missing + reserve > (await freeBytes(importDir)))
    throw new SandglassError('IMAGE_STORE_FULL', {
      image,
      why: `${Math.ceil(missing / 1024 ** 2)} MiB must be downloaded, and the disk of the data folder has no space for them`,
    })
  for (const { digest, size } of wanted) progress.set({ digest, phase: 'waiting', done_bytes: 0, total_bytes: size })
  // The first failure aborts the other downloads.
  const failed = new AbortController()
  const budget = new Budget(image, context.config.images.max_bytes, reserve)
  const layerPull: LayerPull = { ...run, budget, signal: AbortSignal.any([signal, failed.signal]) }
  const queue = wanted.entries()
  const records: LayerRecord[] = []
  const work = async () => {
    for (const [i, layer] of queue) records[i] = await downloadLayer(layerPull, layer)
  }
  const workers = Array.from({ length: CONCURRENT_LAYERS }, () =>
    work().catch(error => {
      failed.abort(error)
      throw error
    }),
  )
  const ends = await Promise.allSettled(workers)
  signal.throwIfAborted()
  failed.signal.throwIfAborted()
  for (const end of ends) if (end.status === 'rejected') throw end.reason
  return records
}

/** Adds the stored image with the most similar name to the error of a failed pull: the reference may be a typing error. */
async function withNearestImage({ store }: ImageContext, wanted: Reference, error: unknown): Promise<unknown> {
  if (!(error instanceof SandglassError) || wanted.digest !== null) return error
  const word = shortForm(wanted.name)
  const known = [...(await allReferences(store)).map(shortForm), 'host'].filter(name => name !== word)
  const lastPart = word.slice(word.lastIndexOf('/') + 1)
  const found = nearest(word, known, Math.max(1, Math.floor(lastPart.length / 3)))
  if (found === null) return error
  const next = `did you mean ${found}, which is stored here?`
  const options = { cause: error, ...(error.requestId === undefined ? {} : { requestId: error.requestId }) }
  if (error.is('IMAGE_NOT_FOUND')) return new SandglassError('IMAGE_NOT_FOUND', { ...error.detail, next }, options)
  if (error.is('REGISTRY_DENIED')) return new SandglassError('REGISTRY_DENIED', { ...error.detail, next }, options)
  if (error.is('REGISTRY_FAILED')) return new SandglassError('REGISTRY_FAILED', { ...error.detail, next }, options)
  return error
}

/** The reference as people write it: without the Docker Hub prefix and without :latest. */
const shortForm = (name: string): string => name.replace(new RegExp(`^${DOCKER_HUB}/(library/)?`), '').replace(/:latest$/, '')
