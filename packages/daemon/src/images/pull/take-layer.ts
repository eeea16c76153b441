// A layer on its way into the store: checked against its diff id, and unpacked in the same pass where a backend wants it so.
import type { Readable } from 'node:stream'
import { TarCount } from '../../layers/tar-count.ts'
import type { ImageWorld } from '../context.ts'
import type { Budget } from '../store/budget.ts'

/** Resolves when all of the tar was seen and found to be right. */
export async function takeLayer(
  { backends }: Pick<ImageWorld, 'backends'>,
  image: string,
  diffId: string,
  tar: Readable,
  budget: Budget,
  signal: AbortSignal,
): Promise<void> {
  for (const backend of backends.values()) {
    if (!backend.receiveLayer) continue
    budget.unpacked(await backend.receiveLayer(image, diffId, tar, budget.limits, signal))
    return
  }
  const count = new TarCount(image)
  for await (const piece of tar) {
    signal.throwIfAborted()
    budget.unpacked(count.add(piece))
  }
  count.finish()
}
