// Finds files in the root of the image `host`, before it is mounted: the folder that was made for it, and the host's own program folders.
import { lstat, readFile, readlink } from 'node:fs/promises'
import { posix } from 'node:path'
import { isMissing, namesIn } from '../../../lib/missing-file.ts'
import type { FoundPaths } from '../found-paths.ts'

const MAX_LINKS = 40
const MAX_BYTES = 1024 * 1024
const ANY = '/*/'

/** `locate` says where on the host a path of the sandbox is. A path with the part `*` stands for one path per name in the folder before it. */
export async function findInHost(locate: (path: string) => string, paths: readonly string[]): Promise<FoundPaths> {
  const all = await Promise.all(paths.map(path => expand(locate, path)))
  return Object.fromEntries(await Promise.all(all.flat().map(async path => [path, await find(locate, path)] as const)))
}

async function expand(locate: (path: string) => string, path: string): Promise<string[]> {
  const at = path.indexOf(ANY)
  if (at < 0) return [path]
  const folder = await resolve(locate, path.slice(0, at))
  const names = folder === null ? [] : await namesIn(locate(folder)).catch(noneIfHidden)
  return names.map(name => path.slice(0, at + 1) + name + path.slice(at + ANY.length - 1))
}

async function find(locate: (path: string) => string, asked: string): Promise<FoundPaths[string]> {
  const path = await resolve(locate, asked)
  if (path === null) return { kind: '' }
  const info = await lstat(locate(path))
  if (!info.isFile()) return { kind: info.isDirectory() ? 'folder' : 'other', path }
  // SECURITY: the content ends up in sandboxes, so it is only that of files that every user of the host can read.
  const isRead = info.size <= MAX_BYTES && (info.mode & 0o004) !== 0
  return isRead ? { kind: 'file', path, content: await readFile(locate(path), 'base64') } : { kind: 'file', path }
}

/** The path without links; null if nothing is there. */
async function resolve(locate: (path: string) => string, path: string): Promise<string | null> {
  let [at, rest, links] = ['/', partsOf(path), 0]
  for (let name = rest.shift(); name !== undefined; name = rest.shift()) {
    const next = posix.join(at, name)
    const info = await lstat(locate(next)).catch(nullIfHidden)
    if (info === null) return null
    if (!info.isSymbolicLink()) {
      at = next
      continue
    }
    if (++links > MAX_LINKS) return null
    const target = await readlink(locate(next))
    rest = [...partsOf(target), ...rest]
    if (target.startsWith('/')) at = '/'
  }
  return at
}

const partsOf = (path: string): string[] => path.split('/').filter(part => part !== '' && part !== '.')

/** A folder of the host that the daemon's user may not enter cannot be entered by a sandbox either. */
function nullIfHidden(error: unknown): null {
  if (isMissing(error) || (error as NodeJS.ErrnoException).code === 'EACCES') return null
  throw error
}

const noneIfHidden = (error: unknown): string[] => nullIfHidden(error) ?? []
