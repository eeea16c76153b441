// Finds out what exists at a path in a session, and which path a copy into it gets.
import { posix } from 'node:path'
import { type FileInfo, SandglassError } from '@sandglass/sdk'
import type { CopyContext, RemotePath } from './copy-context.ts'
import { endsInSlash, inSession, nameOf } from './endpoint.ts'

/** `real` is the path of the folder with all links resolved. */
export type Found = { kind: 'folder'; real: string } | { kind: 'file'; info: FileInfo }

/** Undefined if nothing exists there. Links are resolved inside the sandbox. */
export async function findRemote(
  { session, path }: Omit<RemotePath, 'name'>,
  { user }: Pick<CopyContext, 'user'>,
): Promise<Found | undefined> {
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
export async function requireRemote(remote: RemotePath, copy: CopyContext): Promise<Found> {
  const found = await findRemote(remote, copy)
  if (!found) throw new SandglassError('FILE_NOT_FOUND', { path: remote.path, where: inSession(remote.name) })
  return found
}

/** The path that a copy gets. */
export type Target = {
  path: string
  /** The folder exists already, and the copy is merged into it. */
  exists: boolean
}

/** A copy into an existing folder keeps its own name; otherwise it gets the name of the target. */
export async function resolveTarget(
  remote: RemotePath,
  from: { path: string; isFolder: boolean },
  copy: CopyContext,
): Promise<Target> {
  const { session, path } = remote
  const found = await findRemote(remote, copy)
  if (found?.kind !== 'folder') {
    if (endsInSlash(path) && !from.isFolder) throw new SandglassError('FILE_NOT_FOUND', { path, where: inSession(remote.name) })
    return { path, exists: found !== undefined }
  }
  if (from.isFolder && from.path.endsWith('/.')) return { path, exists: true }
  const inside = posix.join(path, nameOf(from.path))
  return { path: inside, exists: (await findRemote({ session, path: inside }, copy)) !== undefined }
}
