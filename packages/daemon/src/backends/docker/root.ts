// What a container is made from: the host's own folders, or an image of the store, put into the engine.
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import { openLayer } from '../../layers/layer-tar.ts'
import type { LayeredImage } from '../backend.ts'
import { prepareHost } from '../host-image.ts'
import { LOOKED_AT, prepareTop } from '../image-top.ts'
import { lookInLayers } from '../look-in-layers.ts'
import { refuseDevices } from './devices.ts'
import { ensureImage, folderLayer, type LayerFile } from './image.ts'
import { inScratch } from './scratch.ts'

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
  await refuseDevices(image, runnerPath, signal)
  const top = await prepareTop(tops, image.id, () => lookInLayers(image, LOOKED_AT, signal))
  return await inScratch(imagesDir, async scratch => {
    const layers = [...(await layerFiles(image, scratch, signal)), await folderLayer(join(tops, top.name), scratch)]
    return { image: await ensureImage(engine, layers, labels, signal), binds: [], user: top.user }
  })
}

export const layerFiles = (image: LayeredImage, scratch: string, signal: AbortSignal): Promise<LayerFile[]> =>
  Promise.all(image.layers.map((layer, i) => layerFile(image, layer, join(scratch, `${i}.tar`), signal)))

/** Older engines do not know zstd: such a layer is sent as the tar that it holds. */
async function layerFile(
  image: LayeredImage,
  { diffId, blob, compression }: LayeredImage['layers'][number],
  path: string,
  signal: AbortSignal,
): Promise<LayerFile> {
  if (compression !== 'zstd') return { path: blob, diffId }
  await pipeline(openLayer(blob, { image: image.reference, diffId, compression }), createWriteStream(path), { signal })
  return { path, diffId }
}
