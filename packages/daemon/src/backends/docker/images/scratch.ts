// Temporary folders for files that are sent to the engine. They are in the data folder, so that the next daemon can remove those of a killed one.
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { namesIn } from '../../../lib/missing-file.ts'

const PREFIX = 'docker-scratch-'

export async function inScratch<T>(imagesDir: string, work: (folder: string) => Promise<T>): Promise<T> {
  await mkdir(imagesDir, { recursive: true, mode: 0o700 })
  const folder = await mkdtemp(join(imagesDir, PREFIX))
  try {
    return await work(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Only for the start of a daemon, when no scratch folder is in use. */
export async function removeScratch(imagesDir: string): Promise<void> {
  for (const name of await namesIn(imagesDir))
    if (name.startsWith(PREFIX)) await rm(join(imagesDir, name), { recursive: true, force: true })
}
