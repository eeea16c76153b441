// What an engine has built, into the store.
import type { Readable } from 'node:stream'
import type { Image } from '@sandglass/contract'
import { archivedImages, manifestDigest } from '../archive/archive-images.ts'
import { storeImages } from '../archive/import.ts'
import { spoolArchive } from '../archive/spool.ts'
import type { ImageWorld } from '../context.ts'
import { digestOf, invalid } from '../manifest.ts'
import { Progress } from '../pull/progress.ts'
import { progressEvents } from './bases.ts'
import type { BuildLog } from './build-log.ts'
import { withoutArgs } from './secret-args.ts'

export interface Taking {
  readonly name: string
  readonly buildArgs: Readonly<Record<string, string>>
  readonly log: BuildLog
  /** Called with its id once it is stored; it has no name yet, and would be removed without what this notes. */
  readonly note: (id: string) => Promise<void>
}

export async function takeBuilt(
  world: ImageWorld,
  archive: Readable,
  { name, buildArgs, log, note }: Taking,
  signal: AbortSignal,
): Promise<Image> {
  const spool = await spoolArchive(world, name, archive, signal)
  try {
    const [found, ...more] = await archivedImages(spool, name)
    if (!found || more.length > 0) throw invalid(name, 'the engine gave something else than one image')
    const config = withoutArgs(await found.config(), buildArgs)
    const id = digestOf(config)
    const digest = manifestDigest({ digest: id, size: config.length }, found.layers)
    const built = { ...found, id, config: async () => config, manifestDigest: digest, references: [] }
    const release = world.images.held.hold([id])
    try {
      const progress = new Progress()
      const told = tell(progress, log)
      const [image] = await storeImages(world, spool, name, [built], 'build', progress, signal).finally(() => told)
      if (!image) throw invalid(name, 'the engine gave no image')
      await note(image.id)
      return image
    } finally {
      release()
    }
  } finally {
    await spool.remove()
  }
}

async function tell(progress: Progress, log: BuildLog): Promise<void> {
  for await (const event of progressEvents(progress.follow())) log.add(event)
}
