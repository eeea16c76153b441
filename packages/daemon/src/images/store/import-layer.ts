// Checks a layer's tar and, where a backend unpacks layers, unpacks it in the same pass.
import type { Readable } from 'node:stream'
import { TarCounter } from '../../layers/tar-counter.ts'
import type { ImageContext } from '../context.ts'
import type { Budget } from './budget.ts'

/** Resolves when the whole tar has been read and is valid. */
export async function importLayer(
  { backends }: Pick<ImageContext, 'backends'>,
  image: string,
  diffId: string,
  tar: Readable,
  budget: Budget,
  signal: AbortSignal,
): Promise<void> {
  for (const backend of backends.values()) {
    if (!backend.receiveLayer) continue
    budget.addUnpacked(await backend.receiveLayer(image, diffId, tar, budget.limits, signal))
    return
  }
  const counter = new TarCounter(image)
  for await (const piece of tar) {
    signal.throwIfAborted()
    budget.addUnpacked(counter.add(piece))
  }
  counter.finish()
}
