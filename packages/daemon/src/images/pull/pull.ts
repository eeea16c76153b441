// POST /v1/images/pull, and the first step of a session from an image that is not in the store.
import { type Image, SandglassError } from '@sandglass/contract'
import { freeBytes, type ImageWorld, reserveBytes } from '../context.ts'
import { invalid, type Manifest, parseConfig, parseManifest, pickPlatform } from '../manifest.ts'
import { idPrefix, parseReference, type Reference } from '../reference.ts'
import { Registry } from '../registry/registry.ts'
import { admit, admitStored } from '../store/admit.ts'
import { requireAllowed } from '../store/allowed.ts'
import { Budget } from '../store/budget.ts'
import type { LayerRecord } from '../store/layer-record.ts'
import { prune } from '../store/prune.ts'
import { downloadLayer, type LayerPull, type WantedLayer } from './download-layer.ts'
import { withMeantImage } from './nearest-image.ts'
import { Progress } from './progress.ts'

/** Layers on their way at once. */
const AT_ONCE = 3

export interface Pull {
  readonly progress: Progress
  readonly done: Promise<Image>
}

/** Two who ask for the same image at once wait for one pull. What has come stays when it is given up, and is not asked for again. */
export function pullImage(world: ImageWorld, wanted: string, signal: AbortSignal): Pull {
  requireAllowed(world.config, wanted)
  if (wanted === 'host') throw new SandglassError('INVALID_REQUEST', { issue: 'host is this machine itself, and always there' })
  // An id tells neither a registry nor a repository.
  if (idPrefix(wanted) !== null && wanted.startsWith('sha256:')) throw new SandglassError('IMAGE_NOT_FOUND', { image: wanted })
  const reference = parseReference(wanted)
  const flight = world.images.pulls.start(
    reference.name,
    () => new Progress(),
    async (progress, signal) => {
      try {
        return await pull(world, reference, progress, signal)
      } catch (error) {
        throw await withMeantImage(world, reference, error)
      }
    },
  )
  return { progress: flight.progress, done: flight.join(signal) }
}

async function pull(world: ImageWorld, reference: Reference, progress: Progress, signal: AbortSignal): Promise<Image> {
  const registry = new Registry(reference, world.config.registries)
  try {
    const { manifest, digest } = await findManifest(registry, reference, signal)
    checkSizes(world, reference.name, manifest)
    const config = await configBytes(world, registry, manifest, signal)
    const { architecture, rootfs } = parseConfig(reference.name, config, manifest.layers.length)
    const wanted = manifest.layers.map(
      (layer, i): WantedLayer => ({
        image: reference.name,
        digest: layer.digest,
        size: layer.size,
        diffId: rootfs.diff_ids[i] ?? '',
        mediaType: layer.mediaType ?? '',
      }),
    )
    const release = world.images.held.hold([manifest.config.digest, ...wanted.flatMap(layer => [layer.digest, layer.diffId])])
    try {
      const stored = await admitStored(world, config, [reference.name])
      if (stored) return stored
      const layers = await download(world, registry, reference.name, wanted, progress, signal)
      return await admit(world, {
        config,
        architecture,
        manifestDigest: digest,
        source: 'registry',
        layers,
        references: [reference.name],
      })
    } finally {
      release()
      await prune(world)
    }
  } finally {
    registry.close()
  }
}

/** By way of an index, if there is one. The digest is that of what the reference led to. */
async function findManifest(
  registry: Registry,
  { name, tag, digest }: Reference,
  signal: AbortSignal,
): Promise<{ manifest: Manifest; digest: string }> {
  const first = await registry.manifest(digest ?? tag ?? 'latest', signal)
  const parsed = parseManifest(name, first.bytes)
  if ('manifest' in parsed) return { manifest: parsed.manifest, digest: first.digest }
  const { bytes } = await registry.manifest(pickPlatform(name, parsed.index).digest, signal)
  const inner = parseManifest(name, bytes)
  if (!('manifest' in inner)) throw invalid(name, 'its index leads to another index')
  return { manifest: inner.manifest, digest: first.digest }
}

/** SECURITY: before a byte of it comes; what comes is held to what was said. */
function checkSizes({ config }: ImageWorld, image: string, { layers }: Manifest): void {
  const max = config.images.max_bytes
  if (layers.reduce((sum, { size }) => sum + size, 0) > max)
    throw new SandglassError('IMAGE_TOO_LARGE', { image, what: 'bytes', max })
}

async function configBytes(world: ImageWorld, registry: Registry, { config }: Manifest, signal: AbortSignal): Promise<Buffer> {
  return (await world.images.blobs.read(config.digest)) ?? (await registry.smallBlob(config.digest, signal))
}

async function download(
  world: ImageWorld,
  registry: Registry,
  image: string,
  wanted: readonly WantedLayer[],
  progress: Progress,
  signal: AbortSignal,
): Promise<LayerRecord[]> {
  const { blobs } = world.images
  const reserve = await reserveBytes(world)
  const missing = wanted.filter(({ digest }) => !blobs.has(digest)).reduce((sum, { size }) => sum + size, 0)
  if (missing + reserve > (await freeBytes(world.images.importDir)))
    throw new SandglassError('IMAGE_STORE_FULL', {
      image,
      why: `${Math.ceil(missing / 1024 ** 2)} MiB have to come, and the disk of the data folder has no room for them`,
    })
  for (const { digest, size } of wanted) progress.set({ digest, phase: 'waiting', done_bytes: 0, total_bytes: size })
  // One that fails ends the others.
  const failed = new AbortController()
  const step: LayerPull = {
    world,
    registry,
    budget: new Budget(image, world.config.images.max_bytes, reserve),
    progress,
    signal: AbortSignal.any([signal, failed.signal]),
  }
  const queue = wanted.entries()
  const records: LayerRecord[] = []
  const work = async () => {
    for (const [i, layer] of queue) records[i] = await downloadLayer(step, layer)
  }
  const workers = Array.from({ length: AT_ONCE }, () =>
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
