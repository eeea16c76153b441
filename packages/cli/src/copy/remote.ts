// What is at a path of a session, and where a copy goes that is put there.
import { posix } from 'node:path'
import { type FileInfo, SandglassError } from '@sandglass/sdk'
import type { Copying, Remote } from './copying.ts'
import { endsInSlash, nameOf } from './location.ts'
import { inSession } from './sides.ts'

/** `real` is the path of a folder with every link followed. */
export type Found = { kind: 'folder'; real: string } | { kind: 'file'; info: FileInfo }

/** Undefined for what is not there. A link is followed inside the sandbox, so what it leads to decides. */
export async function look({ session, path }: Omit<Remote, 'name'>, { user }: Pick<Copying, 'user'>): Promise<Found | undefined> {
  try {
    const info = await session.files.stat(path, user)
    if (info.type === 'directory') return { kind: 'folder', real: info.path }
    if (info.type !== 'symlink') return { kind: 'file', info }
    try {
      return { kind: 'folder', real: (await session.files.list(path, { maxEntries: 1, ...user })).path }
    } catch (error) {
      if (error instanceof SandglassError && error.is('NOT_A_DIRECTORY')) return { kind: 'file', info }
      throw error
    }
  } catch (error) {
    if (error instanceof SandglassError && error.is('FILE_NOT_FOUND')) return undefined
    throw error
  }
}

/** Throws FILE_NOT_FOUND if the source does not exist. */
export async function lookAtSource(remote: Remote, copying: Copying): Promise<Found> {
  const found = await look(remote, copying)
  if (!found) throw new SandglassError('FILE_NOT_FOUND', { path: remote.path, where: inSession(remote.name) })
  return found
}

/** Where a file or folder called `from` goes: into a folder that is there under its own name, else under the name that was given. */
export type Target = {
  path: string
  /** The folder is there already, and what is copied joins what is in it. */
  exists: boolean
}

export async function targetOf(remote: Remote, from: { path: string; isFolder: boolean }, copying: Copying): Promise<Target> {
  const { session, path } = remote
  const found = await look(remote, copying)
  if (found?.kind !== 'folder') {
    if (endsInSlash(path) && !from.isFolder) throw new SandglassError('FILE_NOT_FOUND', { path, where: inSession(remote.name) })
    return { path, exists: found !== undefined }
  }
  if (from.isFolder && from.path.endsWith('/.')) return { path, exists: true }
  const inside = posix.join(path, nameOf(from.path))
  return { path: inside, exists: (await look({ session, path: inside }, copying)) !== undefined }
}
