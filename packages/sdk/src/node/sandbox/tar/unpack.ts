// Unpacks a tar from a sandbox into a new folder. SECURITY: the archive is hostile. Only regular files and folders are created, with modes of
// this side, below a folder that nothing else has written to; links and special files are left out; a name that is absolute or has `..` fails it.
import { constants } from 'node:fs'
import { mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { saveTo } from '../../save-to.ts'
import { readTar, type TarEntry } from './read-tar.ts'

const MAX_ENTRIES = 100_000
const MAX_BYTES = 4 * 1024 ** 3
const MAX_NAME = 4096
const MAX_DEPTH = 64

/** `folder` must be new and empty. Returns the number of links and special files that were left out. */
export async function unpack(source: AsyncIterable<Uint8Array>, folder: string): Promise<number> {
  let [entries, bytes, leftOut] = [0, 0, 0]
  for await (const entry of readTar(source)) {
    bytes += entry.size
    if (++entries > MAX_ENTRIES) throw new Error(`the archive has more than ${MAX_ENTRIES} entries`)
    if (bytes > MAX_BYTES) throw new Error(`the archive has more than ${MAX_BYTES} bytes`)
    const path = join(folder, ...partsOf(entry.name))
    if (entry.kind === 'other') leftOut++
    else if (entry.kind === 'directory') await mkdir(path, { recursive: true, mode: 0o700 })
    else await writeFile(path, entry)
  }
  return leftOut
}

/** The parts of a name. A name of the folder itself has none. */
function partsOf(name: string): string[] {
  const parts = name.split('/').filter(part => part !== '' && part !== '.')
  const isSafe = !name.startsWith('/') && !parts.includes('..') && name.length <= MAX_NAME && parts.length <= MAX_DEPTH
  if (!isSafe)
    throw new Error(`the archive has an entry that leads out of its folder or is too deep: ${JSON.stringify(name.slice(0, 200))}`)
  return parts
}

async function writeFile(path: string, entry: TarEntry): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
  try {
    await saveTo(file, entry.body)
  } finally {
    await file.close()
  }
}
