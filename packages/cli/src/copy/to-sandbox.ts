import { stat } from 'node:fs/promises'
import { posix } from 'node:path'
import { SandglassError, type Session } from '@sandglass/sdk'
import { fileBody } from '@sandglass/sdk/node'
import type { Copied } from './from-sandbox.ts'
import { endsInSlash, nameOf } from './location.ts'
import { pack } from './pack.ts'
import type { Progress } from './progress.ts'
import { HERE } from './sides.ts'

/** Copies a file or folder of this machine into a sandbox. */
export async function copyToSandbox(
  session: Session,
  from: string,
  to: string,
  progress: Progress,
  onSkip: (what: string) => void,
): Promise<Copied> {
  const found = await stat(from).catch(error => {
    if (error.code === 'ENOENT') throw new SandglassError('FILE_NOT_FOUND', { path: from, where: HERE })
    throw error
  })
  const isInto = await isRemoteFolder(session, to)
  if (found.isDirectory()) {
    const target = isInto && !from.endsWith('/.') ? posix.join(to, nameOf(from)) : to
    await session.files.mkdir(target, { parents: true })
    const { entries } = await session.files.putArchive(target, progress.through(pack(from, onSkip)))
    return { entries, target }
  }
  if (!found.isFile()) throw new SandglassError('NOT_A_FILE', { path: from })
  if (endsInSlash(to) && !isInto) throw new SandglassError('FILE_NOT_FOUND', { path: to })
  const target = isInto ? posix.join(to, nameOf(from)) : to
  const body = await fileBody(from, bytes => progress.add(bytes))
  await session.files.upload(target, body, { mode: (found.mode & 0o777).toString(8).padStart(3, '0') })
  return { entries: 1, target }
}

/** stdin as a file. */
export async function copyFromStdin(session: Session, to: string, progress: Progress): Promise<Copied> {
  if (endsInSlash(to) || (await isRemoteFolder(session, to))) throw new SandglassError('IS_A_DIRECTORY', { path: to })
  await session.files.upload(to, progress.through(process.stdin))
  return { entries: 1, target: to }
}

async function isRemoteFolder(session: Session, path: string): Promise<boolean> {
  try {
    return (await session.files.stat(path)).type === 'directory'
  } catch (error) {
    if (error instanceof SandglassError && error.is('FILE_NOT_FOUND')) return false
    throw error
  }
}
