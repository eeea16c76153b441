// Fsync, then rename into place: after a power cut the file or folder is complete or absent.
import { constants } from 'node:fs'
import { lstat, open, readdir, rename } from 'node:fs/promises'
import { join } from 'node:path'

/** `building` is a file or a folder. Every file is synced on its own, so a folder should have few. */
export async function renameDurably(building: string, path: string): Promise<void> {
  const isFolder = (await lstat(building)).isDirectory()
  await Promise.all((isFolder ? await filesBelow(building) : [building]).map(sync))
  await rename(building, path)
}

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.filter(entry => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
}

async function sync(path: string): Promise<void> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}
