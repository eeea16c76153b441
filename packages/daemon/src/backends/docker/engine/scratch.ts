// Folders for what goes to the engine and is not kept: in the data folder, so that the next daemon finds what a killed one left.
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

/** Only for when a daemon starts: nobody has one then. */
export async function removeScratch(imagesDir: string): Promise<void> {
  for (const name of await namesIn(imagesDir))
    if (name.startsWith(PREFIX)) await rm(join(imagesDir, name), { recursive: true, force: true })
}
