// FROM host: the programs of this machine that sessions with the image `host` see, copied into a layer. The copy is made again when they change.
import { DEFAULT_PATH, SandglassError } from '@sandglass/contract'
import type { LayerMaker } from '../../backends/image-builds.ts'
import { findBuild, findImage } from '../../store/images.ts'
import type { ImageRow } from '../../store/tables.ts'
import type { ImageContext } from '../context.ts'
import { digestsOf } from '../store/image-row.ts'
import { recordStep, stepKey } from './session/step-cache.ts'
import { layerLimits, storeLayer } from './session/store-layer.ts'

export const HOST = 'host'

/** What stands for the image in the key of a build. */
export async function hostKey(context: ImageContext): Promise<string> {
  return stepKey([HOST, (await (await layersOfHost(context)).host()).key])
}

/** The stored copy; undefined if it has to be made. */
export async function storedHost(context: ImageContext): Promise<ImageRow | undefined> {
  const build = await findBuild(context.store, await hostKey(context))
  const row = build && (await findImage(context.store, build.image_id))
  return row && [...digestsOf(row)].every(digest => context.images.blobs.has(digest)) ? row : undefined
}

/** Makes the copy, unless another build has just made it. */
export async function copyHost(context: ImageContext, signal: AbortSignal): Promise<ImageRow> {
  return await context.images.layerMutex.run(HOST, async () => {
    const before = await storedHost(context)
    if (before) return before
    const layers = await layersOfHost(context)
    const limits = layerLimits(context, HOST, [])
    const pins: (() => void)[] = []
    const pin = (digest: string) => void pins.push(context.images.pins.pin([digest]))
    try {
      const layer = await storeLayer(context, HOST, (await layers.host()).read(limits, signal), limits, pin, signal)
      const settings = { Env: [`PATH=${DEFAULT_PATH}`] }
      await recordStep(context, await hostKey(context), {
        layers: layer ? [layer] : [],
        settings,
        args: new Map(),
        hasOwnCmd: false,
      })
    } finally {
      for (const unpin of pins) unpin()
    }
    const made = await storedHost(context)
    if (!made) throw new SandglassError('IMAGE_NOT_FOUND', { image: HOST })
    return made
  })
}

async function layersOfHost({ buildMachines }: ImageContext): Promise<LayerMaker> {
  if (buildMachines) return await buildMachines.layers()
  throw new SandglassError('BACKEND_UNAVAILABLE', { backend: 'oci', why: 'FROM host needs the oci backend' })
}
