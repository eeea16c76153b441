// `cp` into a session.
import { stat } from 'node:fs/promises'
import { SandglassError } from '@sandglass/sdk'
import { fileBody } from '@sandglass/sdk/node'
import type { CopyContext, CopyResult, RemotePath } from './copy-context.ts'
import { endsInSlash, HERE } from './endpoint.ts'
import { pack } from './pack.ts'
import { findRemote, resolveTarget } from './remote.ts'

/** Copies a file or folder of this machine into a session. */
export async function copyToSandbox(from: string, to: RemotePath, copy: CopyContext): Promise<CopyResult> {
  const { progress, user, onLeftOut, onUnreadable } = copy
  const found = await stat(from).catch(error => {
    if (error.code === 'ENOENT') throw new SandglassError('FILE_NOT_FOUND', { path: from, where: HERE })
    throw error
  })
  if (!found.isDirectory() && !found.isFile()) throw new SandglassError('NOT_A_FILE', { path: from })
  const target = await resolveTarget(to, { path: from, isFolder: found.isDirectory() }, copy)
  if (found.isDirectory()) {
    progress.begin(from)
    const body = progress.through(pack(from, onLeftOut, { onUnreadable }))
    const { entries } = await to.session.files.putArchive(target.path, body, { ...user, atomic: !target.exists })
    return { entries, target: target.path }
  }
  progress.begin(from, found.size)
  const body = await fileBody(from, bytes => progress.add(bytes))
  await to.session.files.upload(target.path, body, { ...user, mode: (found.mode & 0o777).toString(8).padStart(3, '0') })
  return { entries: 1, target: target.path }
}

/** Writes stdin to a file in a session. */
export async function copyFromStdin(to: RemotePath, copy: CopyContext): Promise<CopyResult> {
  const { progress, user } = copy
  const { session, path } = to
  if (endsInSlash(path) || (await findRemote(to, copy))?.kind === 'folder') throw new SandglassError('IS_A_DIRECTORY', { path })
  progress.begin('stdin')
  await session.files.upload(path, progress.through(process.stdin), user)
  return { entries: 1, target: path }
}
