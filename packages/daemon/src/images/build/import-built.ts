// Imports the image that an engine has built.
import type { Readable } from 'node:stream'
import type { Image } from '@sandglass/contract'
import { archivedImages, manifestDigest } from '../archive/archive-images.ts'
import { storeImages } from '../archive/import.ts'
import { spoolArchive } from '../archive/spool.ts'
import type { ImageContext } from '../context.ts'
import { digestOf, invalid } from '../manifest.ts'
import { Progress } from '../pull/progress.ts'
import { progressEvents } from './bases.ts'
import type { BuildLog } from './build-log.ts'
import { withoutArgs } from './secret-args.ts'

export interface BuiltImport {
  readonly name: string
  readonly buildArgs: Readonly<Record<string, string>>
  readonly log: BuildLog
  /** Records the build under its key. The image has no name yet, and would be pruned without this record. */
  readonly record: (id: string) => Promise<void>
}

export async function importBuilt(
  context: ImageContext,
  archive: Readable,
  { name, buildArgs, log, record }: BuiltImport,
  signal: AbortSignal,
): Promise<Image> {
  const spool = await spoolArchive(context, name, archive, signal)
  try {
    const [found, ...more] = await archivedImages(spool)
    if (!found || more.length > 0) throw invalid(name, 'the engine did not return exactly one image')
    const config = withoutArgs(await found.config(), buildArgs)
    const id = digestOf(config)
    const digest = manifestDigest({ digest: id, size: config.length }, found.layers)
    const built = { ...found, id, config: async () => config, manifestDigest: digest, references: [] }
    const unpin = context.images.pins.pin([id])
    try {
      const progress = new Progress()
      const logged = logProgress(progress, log)
      const work = { spool, images: [built], source: 'build', progress, signal } as const
      const [image] = await storeImages(context, work).finally(() => logged)
      if (!image) throw invalid(name, 'the engine returned no image')
      await record(image.id)
      return image
    } finally {
      unpin()
    }
  } finally {
    await spool.remove()
  }
}

async function logProgress(progress: Progress, log: BuildLog): Promise<void> {
  for await (const event of progressEvents(progress.follow())) log.add(event)
}
