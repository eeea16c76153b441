// What a container is made from: the host's own folders, or an image of the store, put into the engine.
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import { openLayer } from '../../../layers/layer-tar.ts'
import type { LayeredImage } from '../../backend.ts'
import { lookInLayers } from '../../rootfs/find-in-layers.ts'
import { prepareHost } from '../../rootfs/host-image.ts'
import { LOOKED_AT, prepareTop } from '../../rootfs/overlay-layer.ts'
import { refuseDevices } from '../container/devices.ts'
import { engineSays } from '../engine/engine.ts'
import { inScratch } from '../engine/scratch.ts'
import { ensureImage, folderLayer, type LayerFile } from './engine-image.ts'

export interface Root {
  /** The image's id in the engine. */
  readonly image: string
  /** Folders of the engine's machine that belong to it, and where they are seen. */
  readonly binds: readonly string[]
  /** Name of the user that programs run as. */
  readonly user: string
}

type Labels = Readonly<Record<string, string>>

export async function hostRoot(engine: Docker, imagesDir: string, labels: Labels, signal: AbortSignal): Promise<Root> {
  const [own, ...shared] = (await prepareHost(imagesDir)).layers
  if (own === undefined) throw new SandglassError('INTERNAL', { message: 'the host image has no root' })
  return {
    image: await inScratch(imagesDir, async scratch => {
      return await ensureImage(engine, [await folderLayer(own.source, scratch)], labels, signal)
    }),
    binds: shared.map(({ source, target }) => `${source}:${target}:ro`),
    user: 'sandbox',
  }
}

export async function imageRoot(
  engine: Docker,
  imagesDir: string,
  image: LayeredImage,
  labels: Labels,
  runnerPath: string,
  signal: AbortSignal,
): Promise<Root> {
  const tops = join(imagesDir, 'tops')
  refuseDepth(image, 1)
  await refuseDevices(image, runnerPath, signal)
  const top = await prepareTop(tops, image.id, () => lookInLayers(image, LOOKED_AT, signal))
  return await withLayerFiles(image, imagesDir, signal, async (layers, scratch) => {
    const all = [...layers, await folderLayer(join(tops, top.name), scratch)]
    return { image: await ensureImage(engine, all, labels, signal), binds: [], user: top.user }
  })
}

/** Of an engine, whatever its storage driver. */
const MAX_LAYERS = 125

/** `more` of them come on top. */
export function refuseDepth({ layers, reference }: LayeredImage, more: number): void {
  if (layers.length + more <= MAX_LAYERS) return
  const next = 'no Docker engine takes more: use --backend oci or --backend microvm'
  throw new SandglassError('IMAGE_TOO_LARGE', { image: reference, what: 'layers', max: MAX_LAYERS - more, next })
}

/** `send` gives the layers to the engine; their files are gone afterwards. */
export async function withLayerFiles<T>(
  image: LayeredImage,
  imagesDir: string,
  signal: AbortSignal,
  send: (layers: LayerFile[], scratch: string) => Promise<T>,
): Promise<T> {
  const sendWithout = (compressions: readonly Compression[]) =>
    inScratch(imagesDir, async scratch => {
      const files = image.layers.map((layer, i) => {
        const isUnpacked = compressions.includes(layer.compression)
        return isUnpacked ? unpacked(image, layer, join(scratch, `${i}.tar`), signal) : { path: layer.blob, diffId: layer.diffId }
      })
      return await send(await Promise.all(files), scratch)
    })
  try {
    // Older engines do not know zstd: such a layer is sent as the tar that it holds.
    return await sendWithout(['zstd'])
  } catch (error) {
    // Engines read nothing but gzip behind the end of a gzip stream, where other readers take padding.
    if (!engineSays(error).includes('gzip')) throw error
    return await sendWithout(['zstd', 'gzip'])
  }
}

type Compression = LayeredImage['layers'][number]['compression']

async function unpacked(
  image: LayeredImage,
  { diffId, blob, compression }: LayeredImage['layers'][number],
  path: string,
  signal: AbortSignal,
): Promise<LayerFile> {
  await pipeline(openLayer(blob, { image: image.reference, diffId, compression }), createWriteStream(path), { signal })
  return { path, diffId }
}
