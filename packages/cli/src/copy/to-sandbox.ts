import { stat } from 'node:fs/promises'
import { SandglassError } from '@sandglass/sdk'
import { fileBody } from '@sandglass/sdk/node'
import type { Copied, Copying, Remote } from './copying.ts'
import { endsInSlash } from './location.ts'
import { pack } from './pack.ts'
import { look, targetOf } from './remote.ts'
import { HERE } from './sides.ts'

/** Copies a file or folder of this machine into a sandbox. */
export async function copyToSandbox(from: string, to: Remote, copying: Copying): Promise<Copied> {
  const { progress, user, onLeftOut, onUnreadable } = copying
  const found = await stat(from).catch(error => {
    if (error.code === 'ENOENT') throw new SandglassError('FILE_NOT_FOUND', { path: from, where: HERE })
    throw error
  })
  if (!found.isDirectory() && !found.isFile()) throw new SandglassError('NOT_A_FILE', { path: from })
  const target = await targetOf(to, { path: from, isFolder: found.isDirectory() }, copying)
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

/** stdin as a file. */
export async function copyFromStdin(to: Remote, copying: Copying): Promise<Copied> {
  const { progress, user } = copying
  const { session, path } = to
  if (endsInSlash(path) || (await look(to, copying))?.kind === 'folder') throw new SandglassError('IS_A_DIRECTORY', { path })
  progress.begin('stdin')
  await session.files.upload(path, progress.through(process.stdin), user)
  return { entries: 1, target: path }
}
