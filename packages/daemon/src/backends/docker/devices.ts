// Device files in an image. The other backends leave them out while they unpack; an engine makes them, where nothing forbids their use.
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/contract/tables'
import { extract } from 'tar-stream'
import { openLayer } from '../../layers/layer-tar.ts'
import type { LayeredImage } from '../backend.ts'

/** SECURITY: with one that everybody may open, a container reads the console of the engine's machine. */
export async function refuseDevices(image: LayeredImage, signal: AbortSignal): Promise<void> {
  for (const { diffId, blob, compression } of image.layers) {
    const entries = extract()
    entries.on('entry', ({ name, type }, body, next) => {
      const isDevice = type === 'character-device' || type === 'block-device'
      body.resume().once('end', () => next(isDevice ? refused(image.reference, name) : null))
    })
    await pipeline(openLayer(blob, { image: image.reference, diffId, compression }), entries, { signal })
  }
}

const refused = (image: string, name: string) =>
  new SandglassError('IMAGE_INVALID', { image, issue: `it has the device file ${JSON.stringify(name)}, which docker would make` })
