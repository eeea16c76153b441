// A value that differs when files of the host have changed since they were copied. The times of folders are not used: they change with every temporary
// file, and when a link is replaced by an equal one.
import { createHash } from 'node:crypto'
import { lstat, readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { nullIfMissing } from '../../lib/missing-file.ts'

/** The content of files up to this size is hashed; of larger ones the size and time are used. */
const READ_BYTES = 8 * 1024 ** 2

/** The state of a file, a link, or a folder with its content `depth` levels down; null where nothing exists. */
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

/** The state of a file that is often rewritten without a change. */
export async function contentState(path: string): Promise<unknown> {
  const info = await lstat(path).catch(nullIfMissing)
  if (!info?.isFile() || info.size > READ_BYTES) return await stateOf(path, 1)
  return createHash('sha256')
    .update(await readFile(path).catch(() => `${info.mtimeMs}`))
    .digest('hex')
}

/** A folder that this user cannot read is not copied either. */
function unreadable(error: NodeJS.ErrnoException): string[] {
  if (error.code === 'EACCES' || error.code === 'ENOENT') return []
  throw error
}
