// What tells whether files of the host changed since they were copied. The time of a folder does not: it changes with every file that
// comes and goes, and when a link is made anew that leads where it led before.
import { createHash } from 'node:crypto'
import { lstat, readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { nullIfMissing } from '../../lib/missing-file.ts'

/** A file up to this length is read; of a longer one, the length and time are taken. */
const READ_BYTES = 8 * 1024 ** 2

/** Of a file, a link or a folder with what is in it, `depth` levels down; null where there is nothing. */
export async function stateOf(path: string, depth: number): Promise<unknown> {
  const info = await lstat(path).catch(nullIfMissing)
  if (info === null) return null
  if (info.isSymbolicLink()) return await readlink(path).catch(nullIfMissing)
  if (info.isFile()) return [info.mode, info.size, info.mtimeMs]
  if (!info.isDirectory()) return 'other'
  if (depth === 0) return 'folder'
  const names = (await readdir(path).catch(unreadable)).sort()
  return [info.mode, await Promise.all(names.map(async name => [name, await stateOf(join(path, name), depth - 1)]))]
}

/** Of a file that is written anew when nothing in it has changed. */
export async function contentState(path: string): Promise<unknown> {
  const info = await lstat(path).catch(nullIfMissing)
  if (!info?.isFile() || info.size > READ_BYTES) return await stateOf(path, 1)
  return createHash('sha256')
    .update(await readFile(path).catch(() => `${info.mtimeMs}`))
    .digest('hex')
}

/** What this user may not look into is not copied either. */
function unreadable(error: NodeJS.ErrnoException): string[] {
  if (error.code === 'EACCES' || error.code === 'ENOENT') return []
  throw error
}
