// For the start of a daemon: what the last one was doing with images when it died goes, and what can be taken up again stays.
import { mkdir, rm } from 'node:fs/promises'
import type { ImageWorld } from './context.ts'
import { prune } from './store/prune.ts'

export async function openImages(world: ImageWorld): Promise<void> {
  const { images, log } = world
  await images.blobs.open()
  await rm(images.importDir, { recursive: true, force: true })
  await mkdir(images.importDir, { mode: 0o700 })
  // While sessions are served: it may be a great many files, and a damaged disk is no reason not to start.
  prune(world).catch(err => log.warn({ err }, 'images could not be tidied'))
}
