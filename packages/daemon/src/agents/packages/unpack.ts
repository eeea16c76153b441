// Unpacks the tarball of an npm package into a new folder, for programs that run as any user. No script of the package ever runs.
// SECURITY: a tarball may contain only files and folders below package/. Without links in it no path leads out of the folder.
import { createReadStream } from 'node:fs'
import { chmod, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createGunzip } from 'node:zlib'
import { SandglassError } from '@sandglass/contract'
import { folderForAll } from '../../backends/rootfs/write-files.ts'
import { readEntries } from '../../layers/tar-entries.ts'

const ROOT = 'package'
const MAX_ENTRIES = 20_000
const MAX_NAME = 1024

export interface UnpackLimit {
  readonly maxBytes: number
  /** Called with the bytes that are about to be written. */
  readonly onBytes: (bytes: number) => Promise<void>
}

/** Returns the bytes of all files. `folder` must not exist. */
export async function unpackPackage(tarball: string, folder: string, limit: UnpackLimit, signal: AbortSignal): Promise<number> {
  await folderForAll(folder)
  const compressed = createReadStream(tarball, { highWaterMark: 256 * 1024 })
  const tar = createGunzip({ chunkSize: 256 * 1024 })
  compressed.once('error', error => tar.destroy(error))
  compressed.pipe(tar)
  let [entries, bytes] = [0, 0]
  try {
    await readEntries(tar, { image: 'package', issue: 'it is not a tar' }, signal, async ({ name, type, mode = 0 }, content) => {
      if (++entries > MAX_ENTRIES) throw new Error(`the package has more than ${MAX_ENTRIES} entries`)
      const path = pathOf(name)
      if (type === 'directory') return await folderForAll(join(folder, path))
      if (type !== 'file' && type !== 'contiguous-file') throw new Error(`the package has a ${type} at ${shown(name)}`)
      if (path === '') throw new Error(`the package has a file at ${shown(name)}`)
      await makeParents(folder, dirname(path))
      bytes += await writeContent(join(folder, path), content, { ...limit, maxBytes: limit.maxBytes - bytes })
      // SECURITY: never setuid, never writable by others.
      await chmod(join(folder, path), (mode & 0o111) === 0 ? 0o644 : 0o755)
    })
  } catch (error) {
    throw error instanceof SandglassError && error.is('IMAGE_INVALID') ? new Error(error.detail.issue, { cause: error }) : error
  } finally {
    compressed.destroy()
  }
  return bytes
}

/** The path below package/. */
function pathOf(name: string): string {
  const parts = name.replace(/\/$/, '').split('/')
  const isPlain = parts.every(part => part !== '' && part !== '.' && part !== '..' && !part.includes('\0'))
  if (!isPlain || parts[0] !== ROOT || name.length > MAX_NAME)
    throw new Error(`the package has an entry outside of ${ROOT}/: ${shown(name)}`)
  return parts.slice(1).join('/')
}

const shown = (name: string) => JSON.stringify(name.slice(0, 200))

async function makeParents(folder: string, path: string): Promise<void> {
  if (path === '.') return
  await makeParents(folder, dirname(path))
  await folderForAll(join(folder, path))
}

/** A second file of the same name fails: `wx` opens new files only. */
async function writeContent(path: string, content: AsyncIterable<Buffer>, { maxBytes, onBytes }: UnpackLimit): Promise<number> {
  await using file = await open(path, 'wx', 0o600)
  let bytes = 0
  for await (const piece of content) {
    bytes += piece.length
    if (bytes > maxBytes) throw new Error('the files of the package are too large')
    await onBytes(piece.length)
    await file.write(piece)
  }
  return bytes
}
